//! Expressions as users write them, with the answers and error texts of Go's `regexp` package.

use proptest::prelude::*;
use proptest::sample::select;

use super::compile;

fn answer(pattern: &str, text: &str) -> String {
    match compile(pattern) {
        Ok(regexp) if regexp.is_match(text) => "matches".to_owned(),
        Ok(_) => "no match".to_owned(),
        Err(error) => error.to_string(),
    }
}

/// Checks each pattern against the texts that it matches, and those that it does not.
fn check_matches(table: &[(&str, &[&str], &[&str])]) {
    for (pattern, matching, others) in table {
        for (texts, expected) in [(matching, "matches"), (others, "no match")] {
            for text in *texts {
                assert_eq!(answer(pattern, text), expected, "{pattern} on {text:?}");
            }
        }
    }
}

/// Checks the error of each pattern: the mistake, and the part that it names.
fn check_errors(table: &[(&str, &str, &str)]) {
    for (pattern, mistake, part) in table {
        assert_eq!(answer(pattern, ""), format!("error parsing regexp: {mistake}: `{part}`"), "{pattern}");
    }
}

#[test]
fn perl_classes_and_word_boundaries_are_ascii() {
    check_matches(&[
        (r"^\d$", &["1"], &["٣", "a"]),
        (r"^\D$", &["٣", "a"], &["1"]),
        (r"^\w1$", &["a1", "_1"], &["é1"]),
        (r"^\W$", &["é", "-"], &["a", "_"]),
        (r"^a\sb$", &["a b", "a\tb", "a\u{c}b"], &["a\u{b}b", "a\u{a0}b"]),
        (r"^\S$", &["\u{b}", "a"], &[" "]),
        (r"a\b", &["aé", "a"], &["ab"]),
        (r"^\B", &["é", ""], &["a"]),
        (r"^[\w-]+$", &["a-1"], &["é"]),
        (r"^[\D]$", &["a", "\n"], &["1"]),
        (r"^[^\D]$", &["1"], &["a"]),
        (r"^[\d-a]+$", &["1-a"], &["b"]),
        // Case folding is Unicode's, as in Go: these are the long s and the sign of the kelvin.
        (r"^(?i)\w$", &["\u{17f}", "\u{212a}"], &["é"]),
        (r"^(?i)\W$", &["é"], &["\u{17f}", "K"]),
    ]);
}

#[test]
fn brace_that_begins_no_repetition_is_literal() {
    check_matches(&[
        ("${meta.pat}", &[], &["", "${meta.pat}"]),
        (r"^\${x}$", &["${x}"], &["x"]),
        ("a{b", &["a{b"], &["ab"]),
        ("a{", &["a{"], &["a"]),
        ("^a{,2}$", &["a{,2}"], &["aa"]),
        ("^a{2, 3}$", &["a{2, 3}"], &["aa"]),
        ("^a{007}$", &["a{007}"], &["aaaaaaa"]),
        ("^a{}$", &["a{}"], &["a"]),
        ("^{}]$", &["{}]"], &[""]),
        ("^a{2}$", &["aa"], &["a{2}"]),
        ("^a{2,}$", &["aaa"], &["a"]),
        ("^a{1,2}?$", &["aa"], &["aaa"]),
        ("^a{0}$", &[""], &["a"]),
    ]);
}

#[test]
fn quoted_text_and_escaped_characters_are_literal() {
    check_matches(&[
        (r"^\Qa.b\E$", &["a.b"], &["axb"]),
        (r"^\Qa.b", &["a.b"], &["axb"]),
        (r"^\Qab\E*$", &["abb", "a"], &["abab"]),
        (r"^\Q\\\E$", &[r"\\"], &[r"\"]),
        (r"^\141\.b$", &["a.b"], &["axb"]),
        (r"^\0$", &["\0"], &["0"]),
        (r"^\08$", &["\u{0}8"], &["8"]),
        (r"^\0123$", &["\n3"], &["S"]),
        (r"^\x41\x{1F600}$", &["A😀"], &["A"]),
        (r"^\x{10FFFF}$", &["\u{10ffff}"], &["a"]),
        (r"^\a\f\t\n\r\v$", &["\u{7}\u{c}\t\n\r\u{b}"], &["aftnrv"]),
        (r"\<x\>", &["<x>"], &["x"]),
        (r"^\-\_\ \#\&\~$", &["-_ #&~"], &[""]),
        (r"^a\z", &["a"], &["a\n"]),
        (r"(?m)\Ab", &["b"], &["a\nb"]),
        ("^a #b$", &["a #b"], &["a"]),
        // A surrogate is a character to Go, but no text has it.
        (r"a|\x{D800}", &["a"], &["b"]),
    ]);
}

#[test]
fn brackets_hold_characters_ranges_and_classes_only() {
    check_matches(&[
        ("^a[[]b$", &["a[b"], &["ab"]),
        ("^[[a]]$", &["[]", "a]"], &["a"]),
        ("^[a&&b]$", &["&", "a", "b"], &["&&"]),
        ("^[a~~b]$", &["~"], &["c"]),
        ("^[+--]$", &["+", ",", "-"], &["."]),
        ("^[--a]$", &["-", "A"], &["b"]),
        ("^[a-b-c]$", &["-", "b"], &["d"]),
        ("^[]a]$", &["]", "a"], &["[]a]"]),
        ("^[^]a]$", &["b", "\n"], &["]", "a"]),
        (r"^[\]\-\\^]+$", &[r"]-\^"], &["a"]),
        (r"^[\012\x41-C]+$", &["\nABC"], &["D"]),
        ("^[[:alpha:]_]+$", &["aZ_"], &["1", "é"]),
        ("^[[:^alpha:]]$", &["1", "é"], &["a"]),
        ("^[^[:space:]]$", &["a"], &["\u{b}"]),
        ("^[[:alpha]$", &[":", "[", "p"], &["z"]),
        (r"^[\x{D800}-\x{E000}]$", &["\u{e000}"], &["a"]),
        (r"[\x{D800}]|a", &["a"], &["b"]),
        (r"^[^\x{D800}]$", &["b"], &[""]),
        (r"^[^\x00-\x{10FFFF}]", &[], &["", "a"]),
    ]);
}

#[test]
fn unicode_classes_have_the_names_of_go() {
    check_matches(&[
        (r"^\pN$", &["1", "٣"], &["a"]),
        (r"^\PN$", &["a"], &["1"]),
        (r"^\p{Greek}$", &["α"], &["a"]),
        (r"^\P{Greek}$", &["a"], &["α"]),
        (r"^\p{^Greek}$", &["a"], &["α"]),
        (r"^\P{^Greek}$", &["α"], &["a"]),
        (r"^[\p{Lu}\d]$", &["É", "1"], &["é"]),
        (r"^[^\p{Lu}]$", &["é"], &["É"]),
        (r"^\pLu$", &["éu"], &["É"]),
        (r"^\p{Old_Italic}$", &["\u{10300}"], &["a"]),
        (r"^\p{Any}$", &["\n"], &[""]),
        (r"^\pC$", &["\u{1}"], &["\u{378}", "a"]),
        (r"\p{Cs}|a", &["a"], &["b"]),
    ]);
    check_errors(&[
        (r"\pX", "invalid character class range", r"\pX"),
        (r"\p{Foo}", "invalid character class range", r"\p{Foo}"),
        (r"\p{sc=Greek}", "invalid character class range", r"\p{sc=Greek}"),
        (r"\p{White_Space}", "invalid character class range", r"\p{White_Space}"),
        (r"\p{L", "invalid character class range", r"\p{L"),
        (r"[\p{}]", "invalid character class range", r"\p{}"),
        (r"a\p", "invalid character class range", r"\p"),
    ]);
}

#[test]
fn groups_and_flags_are_those_of_go() {
    check_matches(&[
        ("^(?i)ab$", &["AB"], &["abc"]),
        ("^(?i:a)b$", &["Ab"], &["AB"]),
        ("^(a(?i)b|c)d$", &["aBd", "Cd"], &["Abd", "cD"]),
        ("^(?i)a(?-i)b$", &["Ab"], &["AB"]),
        ("(?m)^b$", &["a\nb\n"], &["ab"]),
        ("a.b", &["a\rb"], &["a\nb"]),
        ("(?s)a.b", &["a\nb"], &["ab"]),
        ("(?ms-i)^a", &["b\na"], &["A"]),
        ("(?ii-i)^a$", &["a"], &["A"]),
        ("^(?)a(?:b)$", &["ab"], &["b"]),
        // The operator applies to what stands before the flags.
        ("^a(?i)*$", &["aa", ""], &["aA"]),
        ("^(?P<n>a)(?<m>b)$", &["ab"], &["a"]),
        ("^(?P<n>a)(?P<n>b)(?P<1>c)$", &["abc"], &["a"]),
        ("^()*(|a)+$", &["", "aa"], &["b"]),
    ]);
    let found = |pattern: &str, text: &str| compile(pattern).unwrap().find(text).unwrap().as_str().to_owned();
    assert_eq!(found("(?U)a+", "aa"), "a");
    assert_eq!(found("(?U)a+?", "aa"), "aa");
    assert_eq!(found("a(?U)+", "aa"), "a");
    assert_eq!(found("a+?", "aa"), "a");
    assert_eq!(found(r"a*\Q\E?", "aa"), "aa");
    let named = compile("(?P<first>a)(?<second>b)").unwrap();
    assert_eq!(named.replace("ab", "${second}$1"), "ba");
}

#[test]
fn syntax_that_go_lacks_is_refused() {
    check_errors(&[
        ("(?x)a", "invalid or unsupported Perl syntax", "(?x"),
        ("(?iR)a", "invalid or unsupported Perl syntax", "(?iR"),
        ("(?u:a)", "invalid or unsupported Perl syntax", "(?u"),
        ("(?=a)", "invalid or unsupported Perl syntax", "(?="),
        ("(?!a)", "invalid or unsupported Perl syntax", "(?!"),
        ("(?<=a)b", "invalid or unsupported Perl syntax", "(?<"),
        ("(?<!a)b", "invalid or unsupported Perl syntax", "(?<"),
        ("(?#a)", "invalid or unsupported Perl syntax", "(?#"),
        ("(?i-)a", "invalid or unsupported Perl syntax", "(?i-)"),
        ("(?-i-s)a", "invalid or unsupported Perl syntax", "(?-i-"),
        ("(?i", "invalid or unsupported Perl syntax", "(?i"),
        ("(?P=n)", "invalid or unsupported Perl syntax", "(?P"),
        ("(?P<", "invalid or unsupported Perl syntax", "(?P"),
        ("(?P<n", "invalid named capture", "(?P<n"),
        ("a(?P<>b)", "invalid named capture", "(?P<>"),
        ("(?P<n.>a)", "invalid named capture", "(?P<n.>"),
        (r"(a)\1", "invalid escape sequence", r"\1"),
        (r"\8", "invalid escape sequence", r"\8"),
        (r"\18", "invalid escape sequence", r"\1"),
        (r"\C", "invalid escape sequence", r"\C"),
        (r"a\Z", "invalid escape sequence", r"\Z"),
        (r"\Qa\E\E", "invalid escape sequence", r"\E"),
        (r"\u0041", "invalid escape sequence", r"\u"),
        (r"\é", "invalid escape sequence", r"\é"),
        (r"\x4", "invalid escape sequence", r"\x4"),
        (r"\xg0", "invalid escape sequence", r"\xg0"),
        (r"\x{}", "invalid escape sequence", r"\x{}"),
        (r"\x{4g}", "invalid escape sequence", r"\x{4g"),
        (r"\x{110000}", "invalid escape sequence", r"\x{110000"),
        (r"[\b]", "invalid escape sequence", r"\b"),
        (r"[\Qa\E]", "invalid escape sequence", r"\Q"),
        (r"[a-\d]", "invalid escape sequence", r"\d"),
    ]);
}

#[test]
fn incomplete_expressions_are_refused() {
    check_errors(&[
        ("(", "missing closing )", "("),
        ("x(?:a", "missing closing )", "x(?:a"),
        ("a)", "unexpected )", "a)"),
        ("a)b**", "unexpected )", "a)b**"),
        ("x[a", "missing closing ]", "[a"),
        ("[]", "missing closing ]", "[]"),
        ("[a-", "missing closing ]", "[a-"),
        (r"[\]", "missing closing ]", r"[\]"),
        ("a\\", "trailing backslash at end of expression", ""),
        ("[a\\", "trailing backslash at end of expression", ""),
        ("[b-a]", "invalid character class range", "b-a"),
        (r"[z-\x41]", "invalid character class range", r"z-\x41"),
        ("[a--]", "invalid character class range", "a--"),
        ("[[:foo:]]", "invalid character class range", "[:foo:]"),
    ]);
}

#[test]
fn repetitions_have_the_limits_of_go() {
    check_errors(&[
        ("a**", "invalid nested repetition operator", "**"),
        ("a++", "invalid nested repetition operator", "++"),
        ("a***", "invalid nested repetition operator", "**"),
        ("a*??", "invalid nested repetition operator", "*??"),
        ("a{2}{3}", "invalid nested repetition operator", "{2}{3}"),
        ("*", "missing argument to repetition operator", "*"),
        ("*?a", "missing argument to repetition operator", "*?"),
        ("a|+", "missing argument to repetition operator", "+"),
        ("({2})", "missing argument to repetition operator", "{2}"),
        ("(?i)*", "missing argument to repetition operator", "*"),
        ("x{1001}", "invalid repeat count", "{1001}"),
        ("x{2,1001}?", "invalid repeat count", "{2,1001}"),
        ("x{99999999999,}", "invalid repeat count", "{99999999999,}"),
        ("x{2,1}", "invalid repeat count", "{2,1}"),
        ("(a{500}){3}", "invalid repeat count", "{3}"),
        ("((a{10}){10}|b){11,}?", "invalid repeat count", "{11,}?"),
    ]);
    check_matches(&[
        ("^x{1000}$", &[&"x".repeat(1000)], &["x"]),
        ("^((x{10}){10}){10}$", &[&"x".repeat(1000)], &["x"]),
        ("^(a{500})*$", &[""], &["a"]),
        ("^(a*)*$", &["aa"], &["b"]),
        ("^*$*a", &["a"], &["b"]),
    ]);
}

#[test]
fn patterns_of_host_names_fit_the_size_limit() {
    let label = "a".repeat(63);
    let long = format!("{label}.{label}");
    check_matches(&[
        (r"^\w{1,63}(\.\w{1,63})*$", &[&long], &["-", ""]),
        (r"^[\w-]{1,63}(\.[\w-]{1,63})*$", &[&long, "a-b.c"], &["."]),
        (r"^\d{1,300}$", &["1"], &["a"]),
        (r"^\W{0,63}w$", &["--w"], &["aw"]),
        (r"^\D{1,200}$", &["é"], &["1"]),
        ("^.{1,1000}$", &["é"], &[""]),
        (r"^\pL{1,63}$", &["é"], &["1"]),
    ]);
}

#[test]
fn expressions_beyond_the_bounds_are_refused() {
    let nested = |depth: usize| format!("{}a{}", "(b|c".repeat(depth), ")*".repeat(depth));
    assert_eq!(answer(&nested(50), "a"), "matches");
    for (pattern, mistake) in [
        (nested(51), "expression nests too deeply"),
        (format!("a{}", r"*\Q\E".repeat(200)), "expression nests too deeply"),
        (r"\pL{1000}".to_owned(), "expression too large"),
        ("x{1000}".repeat(1000), "expression too large"),
        (r"\pL".repeat(2000), "expression too large"),
        ("a".repeat(200_000), "expression too large"),
    ] {
        assert_eq!(answer(&pattern, ""), format!("error parsing regexp: {mistake}: `{pattern}`"));
    }
}

proptest! {
    /// The `regex` crate accepts every translation.
    #[test]
    fn translation_is_valid(tokens in prop::collection::vec(select(TOKENS), 0..12)) {
        let pattern = tokens.concat();
        if let Err(error) = compile(&pattern) {
            prop_assert!(!error.to_string().contains("internal error"), "{}: {}", pattern, error);
        }
    }
}

/// Pieces of expressions.
#[rustfmt::skip]
const TOKENS: &[&str] = &[
    "a", "k", "é", "1", "_", " ", "\n", "-", "&&", "~~", "--", "#", "<", ":", ",", "^", "$", ".", "|", "*", "+", "?",
    "*?", "{2}", "{2,}?", "{0,3}", "{,2}", "{", "}", "{40}", "(", ")", "(?:", "(?P<n>", "(?<m>", "(?P<1>", "(?i)",
    "(?-i)", "(?s:", "(?mU)", "(?", "[", "]", "[^", "[]", "a-z", "[a-", "[[:alpha:]", "[:^word:]", "[:", ":]", r"\d",
    r"\D", r"\w", r"\W", r"\s", r"\S", r"\b", r"\B", r"\A", r"\z", r"\v", r"\07", r"\141", r"\1", r"\x41", r"\x{e9}",
    r"\x{D800}", r"\x{DFFF}", r"\Q", r"\E", r"\<", r"\-", r"\]", r"\[", r"\\", r"\", r"\pL", r"\p{Greek}", r"\P{Any}",
    r"\p{^Lu}", r"\p{Cs}", r"\PC", r"\p{",
];
