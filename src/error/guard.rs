//! Converts panics to errors if a library panics while it decodes an input file.

use std::any::Any;
use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;

use crate::error::{Error, Result};

thread_local! {
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Returns whether [`guarded`] would catch a panic on this thread.
pub(crate) fn is_guarded() -> bool {
    // If the thread is ending, its thread-local variables may already be dropped.
    GUARDED.try_with(Cell::get).unwrap_or(false)
}

/// Calls `decode` and converts a panic to an error. Damaged files cause panics in some libraries, which index by numbers from a file or
/// call `unwrap` on them. Fails with `Kind::Input` if `decode` panics.
pub(crate) fn guarded<T>(decode: impl FnOnce() -> T) -> Result<T> {
    let before = GUARDED.replace(true);
    let decoded = catch_unwind(AssertUnwindSafe(decode));
    GUARDED.set(before);
    decoded.map_err(|panic| {
        let text = panic_text(panic.as_ref()).unwrap_or("without a reason");
        Error::input(format!("the library that decodes it gave up: {text}"))
    })
}

/// Awaits the future `decode` and converts a panic to an error, like [`guarded`].
pub(crate) async fn guarded_async<T>(decode: impl Future<Output = T>) -> Result<T> {
    let mut decode = pin!(decode);
    poll_fn(|context| match guarded(|| decode.as_mut().poll(context)) {
        Ok(Poll::Pending) => Poll::Pending,
        Ok(Poll::Ready(decoded)) => Poll::Ready(Ok(decoded)),
        Err(error) => Poll::Ready(Err(error)),
    })
    .await
}

/// Returns the text of a panic, if it has one.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> Option<&str> {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Kind;

    #[tokio::test]
    async fn a_panic_is_an_error_of_the_input_also_after_a_wait() {
        assert_eq!(guarded(|| (7, is_guarded())).unwrap(), (7, true));
        let error = guarded(|| panic!("bit width {}", 33)).unwrap_err();
        assert_eq!(error.kind(), Kind::Input);
        assert!(error.to_string().ends_with("gave up: bit width 33"), "{error}");
        let waits = async {
            tokio::task::yield_now().await;
            assert!(is_guarded());
            panic!("later")
        };
        assert!(guarded_async::<()>(waits).await.unwrap_err().to_string().ends_with("later"));
        assert!(!is_guarded());
        let nested = guarded(|| (guarded(|| panic!("inside")).is_err(), is_guarded())).unwrap();
        assert_eq!(nested, (true, true));
    }
}
