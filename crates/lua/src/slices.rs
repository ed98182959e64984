//! Handlers that compute for long, a slice at a time.
//!
//! A handler is left between two looks of the guard ([`crate::guard`]). Before it goes on it stands in line, as many of them have a
//! turn at once as there are processors, and behind that all else that is ready on its thread goes first, with what sockets have
//! brought meanwhile: the runtime by itself looks at those after 61 tasks only, which are no time unless each computes for long.
//! However many handlers do, other work waits for those that have a turn, and for the first slices of those that just began.
//!
//! A turn is over when the handler is left or waits. While one is held up, in a part that cannot be left or in a function of C
//! (`os.execute`), those in line have one less; who got a turn on the thread that such a function holds waits for that.

use crate::available_parallelism;
use crate::context::Host;
use crate::guard;
use mlua::thread::AsyncThread;
use mlua::{FromLuaMulti, Lua};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::yield_now;

/// Where those that go on stand in line; clones are the same.
#[derive(Clone)]
pub(crate) struct Line(Arc<Semaphore>);

impl Default for Line {
    fn default() -> Line {
        Line(Arc::new(Semaphore::new(available_parallelism())))
    }
}

impl Line {
    /// For one slice. Nobody closes the line.
    async fn turn(&self) -> Option<OwnedSemaphorePermit> {
        self.0.clone().acquire_owned().await.ok()
    }
}

/// What a handler comes to.
pub(crate) async fn run<R: FromLuaMulti>(lua: &Lua, mut handler: AsyncThread<R>) -> mlua::Result<R> {
    let mut turn = None;
    loop {
        if let Some(answer) = slice(lua, &mut handler, turn).await {
            return answer;
        }
        // Where there is no line nobody else computes: the state belongs to no policy.
        let line = lua.app_data_ref::<Host>().map(|host| host.commons.line.clone());
        turn = match line {
            Some(line) => line.turn().await,
            None => None,
        };
        // In this order: else those in line would run one after the other before the thread looks at anything else.
        yield_now().await;
    }
}

/// Runs until the handler is left, which is `None`, or ends. It has its turn until it is left or waits.
async fn slice<R: FromLuaMulti>(
    lua: &Lua,
    handler: &mut AsyncThread<R>,
    turn: Option<OwnedSemaphorePermit>,
) -> Option<mlua::Result<R>> {
    let (mut turn, mut is_left) = (turn, false);
    poll_fn(|task| {
        if is_left {
            return Poll::Ready(None);
        }
        let answer = Pin::new(&mut *handler).poll(task);
        turn = None;
        is_left = guard::takes_leave(lua);
        // Once it is left its task is already woken: that is waited for, so that nothing wakes it from the next wait.
        answer.map(Some)
    })
    .await
}
