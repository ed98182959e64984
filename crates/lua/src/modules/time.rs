//! `kumo.time`: moments, spans, waiting, and how long a script takes.

use crate::api::{
    Function, Member, Module,
    Proof::{Example, Test},
    Type, function,
};
use crate::types::throttle::sleep_seconds;
use crate::types::time::LuaTime;
use crate::types::time_delta::LuaTimeDelta;
use crate::types::timer::LuaTimer;
use jiff::civil::DateTime;
use jiff::fmt::rfc2822::DateTimeParser;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use mlua::{Lua, Value};

/// The module.
pub(crate) const TIME: Module = Module {
    name: "kumo.time",
    doc: "Moments, spans, waiting, and how long a script takes. Times are UTC.",
    functions: &[FUNCTIONS],
    types: &[TIME_TYPE, DELTA_TYPE, TIMER_TYPE],
};

const FUNCTIONS: &[Function] = &[
    function!(
        waits
        "kumo.time",
        "sleep",
        "(seconds)",
        "Waits; fractions of a second count. Other events go on meanwhile.",
        Example("local t = kumo.time.now() kumo.time.sleep(0.02) assert(t.elapsed.milliseconds >= 20 and not pcall(kumo.time.sleep, -1))"),
        sleep_seconds
    ),
    function!(
        "kumo.time",
        "start_timer",
        "(label) -> Timer",
        "Begins to measure; `timer:done()`, or the end of a `<close>` variable, adds the time to the histogram \
         `user_lua_latency` under this label.",
        Test("crates/lua/tests/scripts/modules.rs::timers_are_counted_by_their_label"),
        LuaTimer::start
    ),
    function!(
        "kumo.time",
        "now",
        "() -> Time",
        "This moment.",
        Example("assert(math.abs(kumo.time.now().unix_timestamp - os.time()) <= 1)"),
        |_, ()| Ok(LuaTime::now())
    ),
    function!(
        "kumo.time",
        "from_unix_timestamp",
        "(seconds) -> Time",
        "The moment so many seconds after the beginning of 1970; fractions count.",
        Example("assert(kumo.time.from_unix_timestamp(0.5).unix_timestamp_millis == 500)"),
        from_unix_timestamp
    ),
    function!(
        "kumo.time",
        "with_ymd_hms",
        "(year, month, day, hour, minute, second) -> Time",
        "The moment with this date; an error when there is none.",
        Example(
            "assert(tostring(kumo.time.with_ymd_hms(2000, 1, 2, 3, 4, 5)) == '2000-01-02 03:04:05 UTC') \
             assert(not pcall(kumo.time.with_ymd_hms, 2001, 2, 29, 0, 0, 0))"
        ),
        with_ymd_hms
    ),
    function!(
        "kumo.time",
        "parse_rfc2822",
        "(text) -> Time",
        "The moment of a date as header fields have it.",
        Example("assert(kumo.time.parse_rfc2822('Sun, 02 Jan 2000 04:04:05 +0100').unix_timestamp == 946782245)"),
        |_, text: String| {
            let read = DateTimeParser::new().relaxed_weekday(true).parse_timestamp(&text);
            read.map(LuaTime).map_err(|e| mlua::Error::runtime(format!("{text:?}: {e}")))
        }
    ),
    function!(
        "kumo.time",
        "parse_rfc3339",
        "(text) -> Time",
        "The moment of a date such as `2000-01-02T03:04:05Z`.",
        Example(
            "assert(kumo.time.parse_rfc3339('2000-01-02T03:04:05Z').day == 2 and not pcall(kumo.time.parse_rfc3339, 'x'))"
        ),
        |_, text: String| {
            let read = text.parse::<Timestamp>();
            read.map(LuaTime).map_err(|e| mlua::Error::runtime(format!("{text:?}: {e}")))
        }
    ),
    function!(
        "kumo.time",
        "parse_duration",
        "(seconds or text) -> TimeDelta",
        "A span: a number of seconds, which may be negative, or text such as `1h 30m`.",
        Example(
            "assert(kumo.time.parse_duration('1h 30m').seconds == 5400 and kumo.time.parse_duration(-1.5).milliseconds == -1500)"
        ),
        parse_duration
    ),
];

fn from_unix_timestamp(_: &Lua, seconds: f64) -> mlua::Result<LuaTime> {
    let wrong = |e: &dyn std::fmt::Display| mlua::Error::runtime(format!("{seconds}: {e}"));
    let since = SignedDuration::try_from_secs_f64(seconds).map_err(|e| wrong(&e))?;
    Timestamp::from_duration(since).map(LuaTime).map_err(|e| wrong(&e))
}

fn with_ymd_hms(_: &Lua, (y, mo, d, h, mi, s): (i16, i8, i8, i8, i8, i8)) -> mlua::Result<LuaTime> {
    let wrong = |e| mlua::Error::runtime(format!("{y}-{mo}-{d} {h}:{mi}:{s}: {e}"));
    let zoned = DateTime::new(y, mo, d, h, mi, s, 0).and_then(|date| date.to_zoned(TimeZone::UTC));
    zoned.map(|zoned| LuaTime(zoned.timestamp())).map_err(wrong)
}

fn parse_duration(_: &Lua, value: Value) -> mlua::Result<LuaTimeDelta> {
    let wrong = |e: &dyn std::fmt::Display| mlua::Error::runtime(e.to_string());
    match &value {
        Value::Integer(seconds) => Ok(LuaTimeDelta(SignedDuration::from_secs(*seconds))),
        Value::Number(seconds) => SignedDuration::try_from_secs_f64(*seconds).map(LuaTimeDelta).map_err(|e| wrong(&e)),
        Value::String(text) => {
            let span = text.to_str()?.parse::<config::Duration>().map_err(|e| wrong(&e))?;
            Ok(LuaTimeDelta::from(span.get()))
        }
        other => Err(mlua::Error::runtime(format!(
            "a {}: expected a number of seconds or text such as `5m`",
            other.type_name()
        ))),
    }
}

const TIME_TYPE: Type = Type {
    name: "Time",
    prefix: "time",
    doc: "A moment. Times compare; a Time plus or less a TimeDelta is a Time, a Time less a Time is a TimeDelta.",
    members: &[
        Member {
            name: "time:format",
            signature: "(form) -> string",
            doc: "The moment in a form of `strftime`, as the library chrono has them: `%c`, `%f` (nanoseconds), `%.3f`, `%+` too.",
            proof: Example(
                "local t = kumo.time.with_ymd_hms(2000, 1, 2, 3, 4, 5) \
                 assert(t:format('%a %d %b %Y %T %z') == 'Sun 02 Jan 2000 03:04:05 +0000') \
                 assert(t:format('%c|%x|%f|%.3f|%+') == 'Sun Jan  2 03:04:05 2000|01/02/00|000000000|.000|2000-01-02T03:04:05+00:00') \
                 assert(not pcall(t.format, t, '%!') and not pcall(t.format, t, '%#z'))",
            ),
        },
        Member {
            name: "time.fields",
            signature: "year month day hour minute second unix_timestamp unix_timestamp_millis rfc2822 rfc3339 elapsed",
            doc: "Parts and forms of the moment; `elapsed` is the TimeDelta since then. They cannot be written.",
            proof: Example(
                "local t = kumo.time.with_ymd_hms(2000, 1, 2, 3, 4, 5) \
                 assert(t.year == 2000 and t.month == 1 and t.hour == 3 and t.minute == 4 and t.second == 5) \
                 assert(t.rfc3339 == '2000-01-02T03:04:05+00:00' and t.rfc2822 == 'Sun, 2 Jan 2000 03:04:05 +0000') \
                 assert(t + kumo.time.parse_duration('1m') - t == kumo.time.parse_duration(60) and t.elapsed.seconds > 0) \
                 assert(t < kumo.time.now() and t.unix_timestamp_millis == t.unix_timestamp * 1000)",
            ),
        },
    ],
};

const DELTA_TYPE: Type = Type {
    name: "TimeDelta",
    prefix: "timedelta",
    doc: "A span of time, which may be negative. Spans compare, add and subtract; `tostring` gives text such as `1h 30m`.",
    members: &[Member {
        name: "timedelta.fields",
        signature: "seconds nanoseconds milliseconds microseconds human",
        doc: "The span in that unit, `seconds` with its fraction, and as text. They cannot be written.",
        proof: Example(
            "local d = kumo.time.parse_duration('1m 500ms') \
             assert(d.seconds == 60.5 and d.milliseconds == 60500 and d.microseconds == 60500000 and d.nanoseconds == 60500000000) \
             assert(d.human == '1m 500ms' and d + d == kumo.time.parse_duration(121) and (d - d).seconds == 0)",
        ),
    }],
};

const TIMER_TYPE: Type = Type {
    name: "Timer",
    prefix: "timer",
    doc: "What `kumo.time.start_timer` returns. One that is dropped without `done` and is no `<close>` variable counts nowhere.",
    members: &[Member {
        name: "timer:done",
        signature: "() -> seconds or nil",
        doc: "Counts the time since the start, once; nil when that was done before.",
        proof: Test("crates/lua/tests/scripts/modules.rs::timers_are_counted_by_their_label"),
    }],
};
