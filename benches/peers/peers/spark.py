"""Spark's MinHashLSH: words, shingles and features by its own transformers, then its approximate similarity join.

5 hash tables as in its documentation's example, which any agreement makes a candidate; each is then verified on the two
sets of features. Features are hashed to 2^20 numbers.
"""

import os

from pyspark.ml.feature import HashingTF, MinHashLSH, NGram, Tokenizer
from pyspark.sql import SparkSession
from pyspark.sql.functions import col

from peers import shared

TABLES = 5


def main():
    given, phases = shared.arguments(), shared.Phases()
    # Without this variable, Spark looks up the name of the machine when it starts.
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    with phases("start"):
        builder = SparkSession.builder.master(f"local[{given.cores}]").config("spark.driver.memory", "4g")
        builder = builder.config("spark.ui.enabled", "false").config("spark.sql.shuffle.partitions", given.cores)
        spark = builder.getOrCreate()
        spark.sparkContext.setLogLevel("ERROR")
    with phases("read, shingles, signatures"):
        words = Tokenizer(inputCol="text", outputCol="words").transform(spark.read.parquet(given.parquet))
        grams = NGram(n=given.shingle, inputCol="words", outputCol="grams").transform(words)
        hashing = HashingTF(numFeatures=1 << 20, binary=True, inputCol="grams", outputCol="features")
        features = hashing.transform(grams).select("id", "features").cache()
        model = MinHashLSH(inputCol="features", outputCol="hashes", numHashTables=TABLES, seed=42).fit(features)
        hashed = model.transform(features).cache()
        hashed.count()
    with phases("join"):
        # The join keeps pairs below the distance, but pairs with exactly the threshold must also be kept.
        joined = model.approxSimilarityJoin(hashed, hashed, 1 - given.threshold + 1e-9)
        ids = joined.select(col("datasetA.id").alias("a"), col("datasetB.id").alias("b"))
        pairs = [(row.a, row.b) for row in ids.where("a < b").collect()]
    shared.write(given.output, "pyspark", phases, setting=f"{TABLES} tables", pairs=pairs)
    # Waits for the process, so that its processor time is measured.
    process = spark.sparkContext._gateway.proc
    spark.stop()
    process.stdin.close()
    process.wait(60)


if __name__ == "__main__":
    main()
