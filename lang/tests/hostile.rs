//! Texts that were made to hurt: deep, long, or growing while they are read. Each is refused, or read in bounds. The
//! stack is that of a worker thread; a text that grows without end would end the test process.

#![expect(clippy::disallowed_types, reason = "a test runs on the stack of a worker")]

use songline_lang::bexpr::Filter;
use songline_lang::jobspec::{self, ParseOptions};
use songline_lang::{acl, config, go_json, regexp};

/// A thread of the server has as much stack.
const STACK_BYTES: usize = 2 << 20;
/// How often a piece is repeated: a body may be longer, but what does not hold for this would not hold for that.
const REPEATED: usize = 30_000;

/// Gives a text to all languages that might get it.
fn check(text: &str) {
    let hcl = |hclv1| jobspec::parse(text, &ParseOptions { hclv1, ..ParseOptions::default() }).is_ok();
    let read = [
        Filter::parse(text).is_ok(),
        hcl(false),
        hcl(true),
        acl::parse(text).is_ok(),
        config::parse(text).is_ok(),
        go_json::value_from_slice(text.as_bytes()).is_ok(),
        regexp::compile(text).is_ok(),
    ];
    assert!(read.iter().any(|read| !read), "no text is right in all languages");
}

fn on_a_worker(play: fn()) {
    let played = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(play).expect("a thread starts");
    played.join().expect("nothing panics");
}

/// The length of a job that has this expression, as JSON, or the error.
fn job(expression: &str) -> Result<usize, String> {
    let source = format!("job \"a\" {{\n meta = {{ x = {expression} }}\n}}");
    let job = jobspec::parse(&source, &ParseOptions::default()).map_err(|error| error.to_string())?;
    serde_json::to_string(&job).map(|json| json.len()).map_err(|error| error.to_string())
}

#[test]
fn depth_is_bounded_in_every_language() {
    on_a_worker(|| {
        let openers = [
            "(",
            "[",
            "{",
            "not ",
            "a { ",
            "a = [",
            "a = {",
            "${",
            "\"${",
            "!",
            "-",
            "a[",
            "x ? ",
            "%{ if ",
            "any A as x { ",
            "{\"a\":",
            "job \"x\" {",
            "(?:",
        ];
        for open in openers {
            check(&open.repeat(REPEATED));
            check(&format!("job \"x\" {{ a = {}", open.repeat(REPEATED)));
        }
    });
}

#[test]
fn long_flat_texts_do_not_exhaust_the_stack() {
    on_a_worker(|| {
        for piece in ["9", "a", "\"", "\0", "\u{fffd}", ",", "\n", "a.", "<<E\n", "/*", "\\", "x{1000}"] {
            check(&piece.repeat(REPEATED));
        }
    });
}

#[test]
fn template_nesting_is_bounded_to_what_fits_a_worker_stack() {
    on_a_worker(|| {
        for depth in [1, 5, 20, 60, 100, 10_000] {
            let nested = format!("{}1{}", "\"${".repeat(depth), "}\"".repeat(depth));
            let read = job(&nested);
            assert_eq!(read.is_ok(), depth <= 20, "{depth}: {read:?}");
        }
    });
}

#[test]
fn nested_filter_brackets_parse_without_backtracking() {
    on_a_worker(|| {
        let nested = |depth: usize| format!("{}ID == x{}", "(".repeat(depth), ")".repeat(depth));
        assert!(Filter::parse(&nested(150)).is_ok());
        assert!(Filter::parse(&nested(1_000)).is_err());
        assert!(Filter::parse(&format!("{}ID == x", "not ".repeat(150))).is_ok());
    });
}

#[test]
fn filter_with_too_many_regular_expressions_is_refused() {
    let filter = |count: usize| vec!["Name matches \"a\""; count].join(" or ");
    assert!(Filter::parse(&filter(32)).is_ok());
    let error = Filter::parse(&filter(10_000)).expect_err("too many");
    assert!(error.to_string().ends_with("rule \"match\": too many regular expressions in one filter"), "{error}");
}

#[test]
fn growing_expressions_are_refused() {
    on_a_worker(|| {
        let lists =
            |depth: usize| (0..depth).fold("1".to_owned(), |inner, at| format!("[for x{at} in range(1024): {inner}]"));
        let template = format!("\"{}x{}\"", "%{ for a in range(1024) }".repeat(4), "%{ endfor }".repeat(4));
        let growing = [
            "join(\"\", [for a in range(1024): join(\"\", [for b in range(1024): format(\"%1024s\", \"a\")])])",
            "setproduct(range(1024), range(1024), range(1024))",
            "range(0, 1e30)",
            &lists(4),
            &template,
        ];
        for expression in growing {
            let read = job(expression);
            assert!(read.is_err(), "{expression}: {read:?}");
        }
        // A width beyond what is supported is as good as the widest.
        let wide = job("format(\"%1000000000d\", 1)");
        assert!(wide.as_ref().is_ok_and(|bytes| *bytes < 10_000), "{wide:?}");
    });
}
