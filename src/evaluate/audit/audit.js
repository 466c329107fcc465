"use strict";
(() => {
  const pairs = Array.from(document.querySelectorAll("article"));
  const place = "resemblance-audit-" + document.body.dataset.pack;
  const status = document.getElementById("status");
  const progress = document.getElementById("progress");
  let labels = {};
  let kept = true;
  let saved = true;
  let at = 0;

  try {
    const found = JSON.parse(localStorage.getItem(place) || "{}");
    for (const pair of pairs) {
      const label = found[pair.dataset.key];
      if (label === "yes" || label === "no" || label === "unsure") labels[pair.dataset.key] = label;
    }
  } catch (error) {
    kept = false;
  }

  const done = () => Object.keys(labels).length;
  const labelOf = (pair) => labels[pair.dataset.key];

  function keep() {
    saved = false;
    try {
      localStorage.setItem(place, JSON.stringify(labels));
      kept = true;
    } catch (error) {
      kept = false;
    }
  }

  function say(text) {
    status.textContent = kept ? text : text + " This browser keeps no labels: save them before you close the page.";
  }

  function draw() {
    pairs.forEach((pair, number) => { pair.hidden = number !== at; });
    const label = labelOf(pairs[at]);
    for (const name of ["yes", "no", "unsure"]) {
      document.getElementById(name).setAttribute("aria-pressed", String(label === name));
    }
    progress.max = pairs.length;
    progress.value = done();
  }

  function where(before) {
    const label = labelOf(pairs[at]);
    const word = label === undefined ? "no label yet" : "label: " + label;
    say(before + "Pair " + (at + 1) + " of " + pairs.length + ", " + word + ". " + done() + " labelled.");
  }

  function go(to, before = "") {
    at = Math.min(Math.max(to, 0), pairs.length - 1);
    draw();
    where(before);
    window.scrollTo(0, 0);
  }

  function label(word) {
    labels[pairs[at].dataset.key] = word;
    keep();
    if (at + 1 < pairs.length) {
      go(at + 1, "Pair " + (at + 1) + ": " + word + ". ");
    } else {
      draw();
      where(done() === pairs.length ? "All pairs are labelled: press s to save them. " : "This was the last pair. ");
    }
  }

  function remove() {
    delete labels[pairs[at].dataset.key];
    keep();
    go(at);
  }

  function next() {
    const after = pairs.findIndex((pair, number) => number > at && labelOf(pair) === undefined);
    const first = pairs.findIndex((pair) => labelOf(pair) === undefined);
    go(after >= 0 ? after : first >= 0 ? first : at, first >= 0 ? "" : "All pairs are labelled: press s to save them. ");
  }

  function details() {
    document.body.classList.toggle("details");
    document.getElementById("details").setAttribute("aria-pressed", String(document.body.classList.contains("details")));
  }

  function write(name, head, rows) {
    const lines = [head].concat(rows).map((row) => row.join(",") + "\r\n");
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob(lines, { type: "text/csv" }));
    link.download = name;
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(link.href), 60000);
    saved = true;
    say(name + " is saved: " + done() + " of " + pairs.length + " pairs are labelled.");
  }

  function save() {
    write("labels.csv", ["pair", "key", "label"],
      pairs.map((pair) => [pair.dataset.pair, pair.dataset.key, labelOf(pair) || ""]));
  }

  const verdicts = { yes: "same", no: "different", unsure: "unsure" };
  const quoted = (id) => "\"" + decodeURIComponent(id).replaceAll("\"", "\"\"") + "\"";

  function decide() {
    write("decisions.csv", ["id_a", "id_b", "verdict"],
      pairs.filter(labelOf).map((pair) => [quoted(pair.dataset.a), quoted(pair.dataset.b), verdicts[labelOf(pair)]]));
  }

  const actions = {
    yes: () => label("yes"),
    no: () => label("no"),
    unsure: () => label("unsure"),
    back: () => go(at - 1),
    forward: () => go(at + 1),
    next,
    remove,
    details,
    save,
    decide,
  };
  const keys = {
    y: "yes", n: "no", "?": "unsure", ArrowLeft: "back", ArrowRight: "forward", g: "next", Backspace: "remove", Delete: "remove",
    d: "details", s: "save", w: "decide",
  };

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.repeat && event.key.length === 1) return;
    const action = keys[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (action === undefined) return;
    event.preventDefault();
    actions[action]();
  });
  for (const [name, act] of Object.entries(actions)) {
    document.getElementById(name).addEventListener("click", act);
  }
  window.addEventListener("beforeunload", (event) => {
    if (!kept && !saved) event.preventDefault();
  });

  document.body.classList.add("works");
  at = Math.max(0, pairs.findIndex((pair) => labelOf(pair) === undefined));
  go(at, done() > 0 ? "Labels of an earlier visit are here. " : "");
})();
