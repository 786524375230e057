//! Tests of expressions and their values.

use std::collections::BTreeMap;

use expect_test::{Expect, expect};

use super::eval::{self, Allowed, Scope};
use super::value::Value;
use super::{first_of, parse};

/// One line per expression: its value as JSON, or the error.
#[expect(clippy::needless_pass_by_value, reason = "reads better at the call")]
fn check(expressions: &str, expected: Expect) {
    let lines: Vec<String> =
        expressions.lines().map(str::trim).map(|text| format!("{text} => {}", said(text))).collect();
    expected.assert_eq(&lines.join("\n"));
}

fn said(text: &str) -> String {
    let (body, wrong) = parse::body(&format!("x = jsonencode({text})\n"), "t");
    let Some(attribute) = body.attribute("x").filter(|_| wrong.is_empty()) else { return first_of(&wrong, "t") };
    let known = Value::object(BTreeMap::from([("n".to_string(), Value::integer(2))]));
    let scope = Scope::of_file(BTreeMap::from([("local".to_string(), known)]), "t", 0);
    let mut found = Vec::new();
    match eval::value(&attribute.expression, &scope, Allowed::All, &mut found) {
        Value::Text(json) if found.is_empty() => json,
        _ => first_of(&found, "t"),
    }
}

#[test]
fn hcl_operators_have_arithmetic_precedence() {
    check(
        "1 + 2 * 3
         (1 + 2) * 3
         10 - 4 - 3
         7 % 3
         1 / 4
         1 / 3
         0.1 + 0.2
         1 / 0
         0 / 0
         -local.n + 5
         !true || true && false
         1 < 2 == true
         \"2\" + 1
         \"a\" == \"a\" ? [1] : [2]
         true ? 1 : \"x\"
         1 ? 2 : 3
         12345678901234567890123 + 1",
        expect![[r#"
            1 + 2 * 3 => 7
            (1 + 2) * 3 => 9
            10 - 4 - 3 => 3
            7 % 3 => 1
            1 / 4 => 0.25
            1 / 3 => 0.3333333333333333
            0.1 + 0.2 => 0.3
            1 / 0 => +Inf
            0 / 0 => t:1,16-21: Operation failed; Error during operation: can't divide zero by zero or infinity by infinity.
            -local.n + 5 => 3
            !true || true && false => false
            1 < 2 == true => true
            "2" + 1 => 3
            "a" == "a" ? [1] : [2] => [1]
            true ? 1 : "x" => "1"
            1 ? 2 : 3 => t:1,16-17: Incorrect condition type; The condition expression must be of type bool.
            12345678901234567890123 + 1 => 12345678901234567890124"#]],
    );
}

#[test]
fn hcl_runtime_variables_stay_text() {
    check(
        "attr.cpu.arch
         \"a-${node.unique.id}-${local.n}\"
         upper(\"${meta.rack}\")
         local.m
         \"$${kept} %%{kept}\"",
        expect![[r#"
            attr.cpu.arch => "${attr.cpu.arch}"
            "a-${node.unique.id}-${local.n}" => "a-${node.unique.id}-2"
            upper("${meta.rack}") => "${META.RACK}"
            local.m => t:1,21-23: Unsupported attribute; This object does not have an attribute named "m".
            "$${kept} %%{kept}" => "${kept} %{kept}""#]],
    );
}

#[test]
fn hcl_collection_functions_evaluate() {
    check(
        "chunklist([1, 2, 3], 2)
         coalesce(null, \"\", \"a\")
         compact([\"a\", \"\", \"b\"])
         concat([1], [\"a\"])
         contains([1, 2], 2)
         distinct([1, 1, 2])
         element([\"a\", \"b\"], 5)
         flatten([[1, [2]], 3])
         keys({ b = 1, a = 2 })
         length([1, 2])
         length({ a = 1 })
         lookup({ a = 1 }, \"b\", 5)
         lookup({ a = 1 }, \"b\")
         merge({ a = 1 }, { b = 2, a = 3 })
         range(3)
         range(1, 10, 4)
         range(1, 10, 0)
         range(5000)
         slice([1, 2, 3], 1, 2)
         slice([1], 0, 5)
         sort([\"b\", \"a\"])
         values({ b = 1, a = 2 })
         zipmap([\"a\"], [1])
         zipmap([\"a\"], [])",
        expect![[r#"
            chunklist([1, 2, 3], 2) => [[1,2],[3]]
            coalesce(null, "", "a") => ""
            compact(["a", "", "b"]) => ["a","b"]
            concat([1], ["a"]) => [1,"a"]
            contains([1, 2], 2) => true
            distinct([1, 1, 2]) => [1,2]
            element(["a", "b"], 5) => "b"
            flatten([[1, [2]], 3]) => [1,2,3]
            keys({ b = 1, a = 2 }) => ["a","b"]
            length([1, 2]) => 2
            length({ a = 1 }) => t:1,16-23: Error in function call; Call to function "length" failed: collection must be a list, a map or a tuple.
            lookup({ a = 1 }, "b", 5) => 5
            lookup({ a = 1 }, "b") => t:1,37-38: Not enough function arguments; Function "lookup" expects 3 argument(s). Missing value for "default".
            merge({ a = 1 }, { b = 2, a = 3 }) => {"a":3,"b":2}
            range(3) => [0,1,2]
            range(1, 10, 4) => [1,5,9]
            range(1, 10, 0) => t:1,16-22: Error in function call; Call to function "range" failed: more than 1024 values were generated; either decrease the difference between start and end or use a smaller step.
            range(5000) => t:1,16-22: Error in function call; Call to function "range" failed: more than 1024 values were generated; either decrease the difference between start and end or use a smaller step.
            slice([1, 2, 3], 1, 2) => [2]
            slice([1], 0, 5) => t:1,30-31: Invalid function argument; Invalid value for "end_index" parameter: end index must not be greater than the length of the list.
            sort(["b", "a"]) => ["a","b"]
            values({ b = 1, a = 2 }) => [2,1]
            zipmap(["a"], [1]) => {"a":1}
            zipmap(["a"], []) => t:1,16-23: Error in function call; Call to function "zipmap" failed: number of keys (1) does not match number of values (0)."#]],
    );
}

#[test]
fn hcl_number_and_text_functions_evaluate() {
    check(
        "abs(-1.5)
         ceil(1.2)
         floor(-1.2)
         max(1, 3, 2)
         min()
         parseint(\"ff\", 16)
         parseint(\"zz\", 10)
         pow(2, 10)
         log(8, 2)
         signum(-3)
         md5(\"a\")
         rsadecrypt(\"aaaa\", \"key\")
         sha256(\"\")
         formatlist(\"%s-%d\", [\"a\", \"b\"], [1, 2])
         formatlist(\"%s\", [\"a\"], [1, 2])
         format(\"%08.3f|%+d|%x\", 3.14159, 7, 255)
         try(local.nope, \"fallback\")
         can(local.nope)
         try(local.nope)
         indent(1000000, \"a\")",
        expect![[r#"
            abs(-1.5) => 1.5
            ceil(1.2) => 2
            floor(-1.2) => -2
            max(1, 3, 2) => 3
            min() => t:1,16-20: Error in function call; Call to function "min" failed: must pass at least one number.
            parseint("ff", 16) => 255
            parseint("zz", 10) => t:1,26-28: Invalid function argument; Invalid value for "number" parameter: cannot parse "zz" as a base 10 integer.
            pow(2, 10) => 1024
            log(8, 2) => 3
            signum(-3) => -1
            md5("a") => "0cc175b9c0f1b6a831c399e269772661"
            rsadecrypt("aaaa", "key") => t:1,16-27: Error in function call; Call to function "rsadecrypt" failed: failed to parse key: no key found.
            sha256("") => "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
            formatlist("%s-%d", ["a", "b"], [1, 2]) => ["a-1","b-2"]
            formatlist("%s", ["a"], [1, 2]) => t:1,40-41: Invalid function argument; Invalid value for "args" parameter: argument 2 has length 2, which is inconsistent with argument 1 of length 1.
            format("%08.3f|%+d|%x", 3.14159, 7, 255) => "0003.142|+7|ff"
            try(local.nope, "fallback") => "fallback"
            can(local.nope) => false
            try(local.nope) => t:1,16-20: Error in function call; Call to function "try" failed: no expression succeeded:
            - Unsupported attribute (at t:1,25-30)
              This object does not have an attribute named "nope".

            At least one expression must produce a successful result.
            indent(1000000, "a") => t:1,16-23: Error in function call; Call to function "indent" failed: the number of spaces must not exceed 10000."#]],
    );
}

#[test]
fn hcl_yaml_functions_decode_and_encode() {
    check(
        r#"yamldecode("a: 1\nb: [x, 2.5, ~]\n? c\n: {d: e}\n")
        yamldecode("base: &b {x: 1, y: 2}\nown:\n  <<: *b\n  y: 3\n")
        yamldecode("- 2017-1-2\n- 2017-01-02T03:04:05Z\n- '1'\n- !!str 1\n- 1_000\n- -0b11\n- +.inf\n- 2017-13-40\n")
        yamldecode("a: |\n  x\n   y\nb: >-\n  x\n  y\n")
        yamldecode("a: *a")
        yamldecode("&a [*a]")
        yamldecode("a: b: c")
        yamldecode("[")
        yamlencode([[1, [2, "x"]], { a = { b = [] }, c = [{ d = null }] }])
        yamlencode({ a = "x\n", b = "\n", c = " x\ny", d = "x \ny", e = "\t", f = "ü\u0085", "x\ny" = 1 })
        yamlencode("x\ny\n\n")"#,
        expect![[r#"
            yamldecode("a: 1\nb: [x, 2.5, ~]\n? c\n: {d: e}\n") => {"a":1,"b":["x",2.5,null],"c":{"d":"e"}}
            yamldecode("base: &b {x: 1, y: 2}\nown:\n  <<: *b\n  y: 3\n") => {"base":{"true":2,"x":1},"own":{"true":3,"x":1}}
            yamldecode("- 2017-1-2\n- 2017-01-02T03:04:05Z\n- '1'\n- !!str 1\n- 1_000\n- -0b11\n- +.inf\n- 2017-13-40\n") => ["2017-01-02T00:00:00Z","2017-01-02T03:04:05Z","1","1",1000,-3,+Inf,"2017-13-40"]
            yamldecode("a: |\n  x\n   y\nb: >-\n  x\n  y\n") => {"a":"x\n y\n","b":"x y"}
            yamldecode("a: *a") => t:1,16-27: Error in function call; Call to function "yamldecode" failed: on line 0, column 4: reference to undefined anchor "a".
            yamldecode("&a [*a]") => t:1,16-27: Error in function call; Call to function "yamldecode" failed: on line 0, column 5: cannot refer to an anchor from inside its own definition.
            yamldecode("a: b: c") => t:1,16-27: Error in function call; Call to function "yamldecode" failed: mapping values are not allowed in this context.
            yamldecode("[") => t:1,16-27: Error in function call; Call to function "yamldecode" failed: on line 1, column 1: did not find expected node content.
            yamlencode([[1, [2, "x"]], { a = { b = [] }, c = [{ d = null }] }]) => "- - 1\n  - - 2\n    - \"x\"\n- \"a\":\n    \"b\": []\n  \"c\":\n  - \"d\": null\n"
            yamlencode({ a = "x\n", b = "\n", c = " x\ny", d = "x \ny", e = "\t", f = "ü\u0085", "x\ny" = 1 }) => "\"a\": |\n  x\n\"b\": |2+\n\n\"c\": |2-\n   x\n  y\n\"d\": \"x \\ny\"\n\"e\": \"\\t\"\n\"f\": \"ü\\N\"\n\"x\\ny\": 1\n"
            yamlencode("x\ny\n\n") => "|+\n  x\n  y\n\n""#]],
    );
}

#[test]
fn hcl_cidr_functions_compute_addresses_and_subnets() {
    check(
        r#"cidrhost("10.1.2.240/28", 3)
        cidrhost("10.0.0.0/8", -1)
        cidrhost("10.0.0.0/30", 4)
        cidrhost("fd00::/64", 255)
        cidrnetmask("172.16.0.0/12")
        cidrsubnet("172.16.0.0/12", 4, 2)
        cidrsubnet("fd00::/48", 16, 162)
        cidrsubnet("10.0.0.0/8", 2, 4)
        cidrsubnet("10.0.0.0/31", 2, 0)
        cidrsubnets("10.1.0.0/16", 4, 4, 8, 4)
        cidrsubnets("10.1.0.0/30", 1, 1, 1)
        cidrhost("10.0.0/8", 1)"#,
        expect![[r#"
            cidrhost("10.1.2.240/28", 3) => "10.1.2.243"
            cidrhost("10.0.0.0/8", -1) => "10.255.255.255"
            cidrhost("10.0.0.0/30", 4) => t:1,16-25: Error in function call; Call to function "cidrhost" failed: prefix of 30 does not accommodate a host numbered 4.
            cidrhost("fd00::/64", 255) => "fd00::ff"
            cidrnetmask("172.16.0.0/12") => "255.240.0.0"
            cidrsubnet("172.16.0.0/12", 4, 2) => "172.18.0.0/16"
            cidrsubnet("fd00::/48", 16, 162) => "fd00:0:0:a2::/64"
            cidrsubnet("10.0.0.0/8", 2, 4) => t:1,16-27: Error in function call; Call to function "cidrsubnet" failed: prefix extension of 2 does not accommodate a subnet numbered 4.
            cidrsubnet("10.0.0.0/31", 2, 0) => t:1,16-27: Error in function call; Call to function "cidrsubnet" failed: insufficient address space to extend prefix of 31 by 2.
            cidrsubnets("10.1.0.0/16", 4, 4, 8, 4) => ["10.1.0.0/20","10.1.16.0/20","10.1.32.0/24","10.1.48.0/20"]
            cidrsubnets("10.1.0.0/30", 1, 1, 1) => t:1,49-50: Invalid function argument; Invalid value for "newbits" parameter: not enough remaining address space for a subnet with a prefix of 31 bits after 10.1.0.2/31.
            cidrhost("10.0.0/8", 1) => t:1,16-25: Error in function call; Call to function "cidrhost" failed: invalid CIDR expression: invalid CIDR address: 10.0.0/8."#]],
    );
}

#[test]
fn hcl_digest_uuid_and_convert_functions_evaluate() {
    check(
        r#"sha1("a")
        uuidv5("dns", "www.example.com")
        uuidv5("6ba7b811-9dad-11d1-80b4-00c04fd430c8", "x")
        uuidv5("nope", "x")
        uuidv4()
        [uuidv4(), uuidv4()]
        bcrypt("x", 4)
        bcrypt("x", 31)
        convert("1", number)
        convert([1, "2"], list(string))
        convert({ a = 1 }, object({ a = string }))
        convert("x", number)
        convert("x", nope)
        convert("x")"#,
        expect![[r#"
            sha1("a") => "86f7e437faa5a7fce15d1ddcb9eaeaea377667b8"
            uuidv5("dns", "www.example.com") => "2ed6657d-e927-568b-95e1-2665a8aea6a2"
            uuidv5("6ba7b811-9dad-11d1-80b4-00c04fd430c8", "x") => "4cd605e7-afa2-5360-b5b9-c5e9fb5c76f4"
            uuidv5("nope", "x") => t:1,16-23: Error in function call; Call to function "uuidv5" failed: uuidv5() doesn't support namespace nope (invalid UUID length: 4).
            uuidv4() => "ed8b7b2c-2c6b-4e3a-a50f-e15699b56315"
            [uuidv4(), uuidv4()] => ["ed8b7b2c-2c6b-4e3a-a50f-e15699b56315","ce94bbc2-5947-4295-aa55-cbcf7c2d5d05"]
            bcrypt("x", 4) => "$2a$04$5Wr5JAvpphnjB8DUkZThDOZGo9jCgJ3dIbbt/LG5R8DpDB9tmtEoy"
            bcrypt("x", 31) => t:1,16-23: Error in function call; Call to function "bcrypt" failed: digests of this cost take longer than a job file may.
            convert("1", number) => 1
            convert([1, "2"], list(string)) => ["1","2"]
            convert({ a = 1 }, object({ a = string })) => {"a":"1"}
            convert("x", number) => t:1,25-26: Invalid function argument; Invalid value for "value" parameter: a number is required.
            convert("x", nope) => t:1,29-33: Invalid type specification; The keyword "nope" is not a valid type specification.
            convert("x") => t:1,27-28: Not enough function arguments; Function "convert" expects 2 argument(s). Missing value for "type"."#]],
    );
}

#[test]
fn hcl_collection_functions_refuse_wrong_arguments_with_their_own_errors() {
    check(
        "chunklist([], 0)
         chunklist([\"a\", 1], 1)
         chunklist([1], -1)
         chunklist(\"a\", 1)
         coalesce(\"\", \"a\")
         coalesce(null, 1, \"a\")
         coalesce(1, \"a\")
         coalesce(null)
         coalesce()
         coalescelist()
         coalescelist([], \"a\")
         coalescelist([], [])
         concat([1], \"a\")
         contains(\"abc\", \"a\")
         distinct([1, \"1\"])
         distinct(\"a\")
         element([1], -1)
         element([1], 1.5)
         element(\"abc\", 0)
         flatten({ a = 1 })
         index([1, 2], 1)
         index([1, 2], 2)
         index([1, 2], \"1\")
         index(\"ab\", 0)
         keys([1])
         length(\"abc\")
         lookup({ a = 1 }, \"b\")
         lookup([1], \"a\", 2)
         lookup(convert({ a = 1 }, map(number)), \"b\", \"x\")
         merge({ a = 1 }, null)
         merge(null)
         merge([1])
         range(3, 1, 1)
         slice([1, 2], 2, 1)
         slice([1, 2], 0.5, 1)
         slice(\"abc\", 0, 1)
         sort([\"a\", null])
         values([1])
         zipmap([\"a\"], \"b\")
         zipmap([null], [1])",
        expect![[r#"
            chunklist([], 0) => []
            chunklist(["a", 1], 1) => [["a"],["1"]]
            chunklist([1], -1) => t:1,16-26: Error in function call; Call to function "chunklist" failed: the size argument must be positive.
            chunklist("a", 1) => t:1,27-28: Invalid function argument; Invalid value for "list" parameter: list of any single type required.
            coalesce("", "a") => ""
            coalesce(null, 1, "a") => "1"
            coalesce(1, "a") => "1"
            coalesce(null) => t:1,16-25: Error in function call; Call to function "coalesce" failed: no non-null arguments.
            coalesce() => t:1,16-25: Error in function call; Call to function "coalesce" failed: all arguments must have the same type.
            coalescelist() => t:1,16-29: Error in function call; Call to function "coalescelist" failed: at least one argument is required.
            coalescelist([], "a") => t:1,16-29: Error in function call; Call to function "coalescelist" failed: coalescelist arguments must be lists or tuples.
            coalescelist([], []) => t:1,16-29: Error in function call; Call to function "coalescelist" failed: no non-null arguments.
            concat([1], "a") => t:1,29-30: Invalid function argument; Invalid value for "seqs" parameter: all arguments must be lists or tuples; got string.
            contains("abc", "a") => t:1,16-25: Error in function call; Call to function "contains" failed: argument must be list, tuple, or set.
            distinct([1, "1"]) => ["1"]
            distinct("a") => t:1,26-27: Invalid function argument; Invalid value for "list" parameter: list of any single type required.
            element([1], -1) => t:1,16-24: Error in function call; Call to function "element" failed: cannot use element function with a negative index.
            element([1], 1.5) => t:1,16-24: Error in function call; Call to function "element" failed: invalid index: value must be a whole number, between -9223372036854775808 and 9223372036854775807.
            element("abc", 0) => t:1,16-24: Error in function call; Call to function "element" failed: cannot read elements from string.
            flatten({ a = 1 }) => t:1,16-24: Error in function call; Call to function "flatten" failed: can only flatten lists, sets and tuples.
            index([1, 2], 1) => 2
            index([1, 2], 2) => t:1,16-22: Error in function call; Call to function "index" failed: key must be between 0 and 2 inclusive.
            index([1, 2], "1") => t:1,16-22: Error in function call; Call to function "index" failed: key for tuple must be number.
            index("ab", 0) => t:1,16-22: Error in function call; Call to function "index" failed: collection must be a list, a map or a tuple.
            keys([1]) => t:1,21-22: Invalid function argument; Invalid value for "inputMap" parameter: must have map or object type.
            length("abc") => t:1,16-23: Error in function call; Call to function "length" failed: collection must be a list, a map or a tuple.
            lookup({ a = 1 }, "b") => t:1,37-38: Not enough function arguments; Function "lookup" expects 3 argument(s). Missing value for "default".
            lookup([1], "a", 2) => t:1,23-24: Invalid function argument; Invalid value for "inputMap" parameter: lookup() requires a map as the first argument.
            lookup(convert({ a = 1 }, map(number)), "b", "x") => t:1,62-63: Invalid function argument; Invalid value for "default" parameter: the default value must have the same type as the map elements.
            merge({ a = 1 }, null) => {"a":1}
            merge(null) => null
            merge([1]) => t:1,16-22: Error in function call; Call to function "merge" failed: arguments must be maps or objects, got "tuple".
            range(3, 1, 1) => t:1,25-26: Invalid function argument; Invalid value for "params" parameter: end must be greater than start when step is positive.
            slice([1, 2], 2, 1) => t:1,30-31: Invalid function argument; Invalid value for "start_index" parameter: start index must not be greater than end index.
            slice([1, 2], 0.5, 1) => t:1,30-33: Invalid function argument; Invalid value for "start_index" parameter: invalid start index: value must be a whole number, between -9223372036854775808 and 9223372036854775807.
            slice("abc", 0, 1) => t:1,23-26: Invalid function argument; Invalid value for "list" parameter: must be a list or tuple value.
            sort(["a", null]) => t:1,16-21: Error in function call; Call to function "sort" failed: given list element 1 is null; a null string cannot be sorted.
            values([1]) => t:1,16-23: Error in function call; Call to function "values" failed: values() requires a map as the first argument.
            zipmap(["a"], "b") => t:1,16-23: Error in function call; Call to function "zipmap" failed: values argument must be a list or tuple value.
            zipmap([null], [1]) => t:1,16-23: Error in function call; Call to function "zipmap" failed: keys list has null value at index 0."#]],
    );
}

#[test]
fn hcl_number_and_uuid_functions_refuse_wrong_arguments_with_their_own_errors() {
    check(
        "parseint(\"Zz\", 62)
         parseint(\"-7f\", 16)
         parseint(\"1\", 63)
         parseint(12, 10)
         signum(2.5)
         cidrhost(\"10.0.0.0/30\", -5)
         cidrhost(\"10.0.0.0/30\", 5)
         uuidv5(\"nope\", \"x\")
         uuidv5(\"6ba7b810-9dad-11d1-80b4-00c04fd430cx\", \"x\")",
        expect![[r#"
            parseint("Zz", 62) => 3817
            parseint("-7f", 16) => -127
            parseint("1", 63) => t:1,30-32: Invalid function argument; Invalid value for "base" parameter: base must be a whole number between 2 and 62 inclusive.
            parseint(12, 10) => t:1,25-27: Invalid function argument; Invalid value for "number" parameter: first argument must be a string, not number.
            signum(2.5) => t:1,16-23: Error in function call; Call to function "signum" failed: value must be a whole number, between -9223372036854775808 and 9223372036854775807.
            cidrhost("10.0.0.0/30", -5) => t:1,16-25: Error in function call; Call to function "cidrhost" failed: prefix of 30 does not accommodate a host numbered -1.
            cidrhost("10.0.0.0/30", 5) => t:1,16-25: Error in function call; Call to function "cidrhost" failed: prefix of 30 does not accommodate a host numbered 5.
            uuidv5("nope", "x") => t:1,16-23: Error in function call; Call to function "uuidv5" failed: uuidv5() doesn't support namespace nope (invalid UUID length: 4).
            uuidv5("6ba7b810-9dad-11d1-80b4-00c04fd430cx", "x") => t:1,16-23: Error in function call; Call to function "uuidv5" failed: uuidv5() doesn't support namespace 6ba7b810-9dad-11d1-80b4-00c04fd430cx (invalid UUID format)."#]],
    );
}
