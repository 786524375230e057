//! Stories of what is said about job files that are wrong, and of values at the edges of their types.

use expect_test::{Expect, expect};

use crate::jobspec::{ParseOptions, parse};

/// Result of a job file: the error, or the named members of its job.
fn said(source: &str, variables: &str, hclv1: bool, members: &[&str]) -> String {
    let options = ParseOptions { variables: variables.to_string(), hclv1, ..ParseOptions::default() };
    match parse(source, &options) {
        Ok(job) => {
            let job = serde_json::to_value(&job).expect("a job is JSON");
            let shown = members.iter().map(|pointer| job.pointer(pointer).unwrap_or_default().to_string());
            shown.collect::<Vec<String>>().join(" ")
        }
        Err(refusal) => refusal.to_string(),
    }
}

/// Parses each text inside `before` and `after`; `~` stands for a line break.
fn check(before: &str, texts: &[&str], after: &str, members: &[&str], expected: Expect) {
    let line = |text: &&str| {
        let source = format!("{before}{}{after}", text.replace('~', "\n"));
        format!("{text} => {}", said(&source, "", false, members))
    };
    expected.assert_eq(&texts.iter().map(line).collect::<Vec<String>>().join("\n"));
}

/// Parses each text as the value of a key of a task's `config` block.
fn check_value(texts: &[&str], expected: Expect) {
    let before = "job \"j\" {\n task \"t\" {\n  config {\n   v = ";
    check(before, texts, "\n  }\n }\n}\n", &["/TaskGroups/0/Tasks/0/Config/v"], expected);
}

/// Parses job files of the older language.
fn check_v1(texts: &[&str], members: &[&str], expected: Expect) {
    let line = |text: &&str| format!("{text} => {}", said(&text.replace('~', "\n"), "", true, members));
    expected.assert_eq(&texts.iter().map(line).collect::<Vec<String>>().join("\n"));
}

#[test]
fn value_that_is_no_duration_is_told_with_its_type_as_go_prints_it() {
    let texts =
        ["true", "null", "[]", "[1, \"a\"]", "{}", "{ b = 1, a = [true] }", "tolist", "0.5", "\"\"", "\"5\"", "7"];
    check(
        "job \"j\" {\n group \"g\" {\n  shutdown_delay = ",
        &texts,
        "\n }\n}\n",
        &["/TaskGroups/0/ShutdownDelay"],
        expect![[r#"
            true => input.hcl:3,20-24: Unsuitable value type; Unsuitable value: expected a string but found {{{} %!s(cty.primitiveTypeKind=66)}}
            null => input.hcl:3,20-24: Unsuitable value type; Unsuitable value: expected a string but found {{{}}}
            [] => input.hcl:3,20-21: Unsuitable value type; Unsuitable value: expected a string but found {{{} []}}
            [1, "a"] => input.hcl:3,20-21: Unsuitable value type; Unsuitable value: expected a string but found {{{} [{{{} %!s(cty.primitiveTypeKind=78)}} {{{} %!s(cty.primitiveTypeKind=83)}}]}}
            {} => input.hcl:3,20-21: Unsuitable value type; Unsuitable value: expected a string but found {{{} map[] map[]}}
            { b = 1, a = [true] } => input.hcl:3,20-21: Unsuitable value type; Unsuitable value: expected a string but found {{{} map[a:{{{} [{{{} %!s(cty.primitiveTypeKind=66)}}]}} b:{{{} %!s(cty.primitiveTypeKind=78)}}] map[]}}
            tolist => input.hcl:3,20-26: Unsuitable value type; Unsuitable duration value: time: invalid duration "${tolist}"
            0.5 => input.hcl:3,20-23: Unsuitable value type; Unsuitable value: value must be a whole number, between -9223372036854775808 and 9223372036854775807
            "" => input.hcl:3,22-22: Unsuitable value type; Unsuitable duration value: time: invalid duration ""
            "5" => input.hcl:3,21-22: Unsuitable value type; Unsuitable duration value: time: missing unit in duration "5"
            7 => 7"#]],
    );
}

#[test]
fn empty_shorthand_of_a_constraint_does_not_count() {
    let texts = [
        "version = \"\"",
        "semver = \"\"~regexp = \"x\"~set_contains = \"\"",
        "distinct_property = \"\"",
        "operator = \"<\"~version = \"\"~value = \"5\"",
    ];
    check(
        "job \"j\" {\n constraint {\n  ",
        &texts,
        "\n }\n}\n",
        &["/Constraints/0"],
        expect![[r#"
        version = "" => {"LTarget":"","RTarget":"","Operand":"="}
        semver = ""~regexp = "x"~set_contains = "" => {"LTarget":"","RTarget":"x","Operand":"regexp"}
        distinct_property = "" => {"LTarget":"","RTarget":"","Operand":"="}
        operator = "<"~version = ""~value = "5" => {"LTarget":"","RTarget":"5","Operand":"<"}"#]],
    );
}

#[test]
fn dynamic_block_that_is_wrong_is_told_once_for_each_reading_of_its_body() {
    let texts = [
        "dynamic \"group\" {~for_each = [1]~labels = []~content {}~}",
        "dynamic \"group\" {~for_each = [1]~labels = local.x~content {}~}",
        "dynamic \"group\" {~for_each = [1]~labels = [[]]~content {}~}",
        "dynamic \"update\" {~for_each = [1]~labels = [\"a\"]~content {}~}",
        "dynamic \"update\" {~for_each = [1]~iterator = a.b~content {}~}",
        "dynamic \"update\" {~for_each = [1]~wrong = 1~content {}~}",
        "dynamic \"update\" {~}",
        "vault \"x\" {~}",
        "task \"t\" {~scaling \"cpu\" \"x\" {}~}",
        "task \"t\" {~dynamic {}~}",
    ];
    check(
        "job \"j\" {\n ",
        &texts,
        "\n}\n",
        &[],
        expect![[r#"
        dynamic "group" {~for_each = [1]~labels = []~content {}~} => input.hcl:4,10-12: Insufficient dynamic block labels; Blocks of type "group" require 1 label(s).
        dynamic "group" {~for_each = [1]~labels = local.x~content {}~} => input.hcl:4,10-17: Invalid expression; A static list expression is required.
        dynamic "group" {~for_each = [1]~labels = [[]]~content {}~} => input.hcl:4,11-13: Invalid dynamic block label; Cannot use this value as a dynamic block label: string required.
        dynamic "update" {~for_each = [1]~labels = ["a"]~content {}~} => input.hcl:4,1-7: Unsupported argument; An argument named "labels" is not expected here.
        dynamic "update" {~for_each = [1]~iterator = a.b~content {}~} => input.hcl:4,12-15: Invalid dynamic iterator name; Dynamic iterator must be a single variable name.
        dynamic "update" {~for_each = [1]~wrong = 1~content {}~} => input.hcl:4,1-6: Unsupported argument; An argument named "wrong" is not expected here.
        dynamic "update" {~} => input.hcl:2,19-19: Missing required argument; The argument "for_each" is required, but no definition was found.
        input.hcl:2,19-19: Missing dynamic content block; A dynamic block must have a nested block of type "content" to describe the body of each generated block.
        vault "x" {~} => input.hcl:2,8-11: Extraneous label for vault; No labels are expected for vault blocks.
        input.hcl:2,8-11: Extraneous label for vault; No labels are expected for vault blocks.
        task "t" {~scaling "cpu" "x" {}~} => input.hcl:3,15-18: Extraneous label for scaling; Only 1 labels (name) are expected for scaling blocks.
        input.hcl:3,15-18: Extraneous label for scaling; Only 1 labels (name) are expected for scaling blocks.
        task "t" {~dynamic {}~} => input.hcl:3,9-10: Missing type for dynamic; All dynamic blocks must have 1 labels (type).
        input.hcl:3,9-10: Missing type for dynamic; All dynamic blocks must have 1 labels (type)."#]],
    );
}

#[test]
fn branches_of_a_condition_become_one_type() {
    let texts = [
        "true ? [1] : [\"a\", \"b\"]",
        "true ? [1, 2] : [\"a\", true]",
        "false ? { a = 1 } : { b = \"x\" }",
        "true ? { a = 1 } : { a = \"x\" }",
        "true ? [] : [1]",
        "true ? [1, true] : [1]",
        "true ? [[1]] : [[\"a\"]]",
        "true ? null : [1]",
        "true ? 1 : true",
        "true ? [1] : true",
        "-null",
        "!null",
        "1 < null",
        "5 % 0",
        "0 % 0",
        "1.5 % 0",
        "coalesce(null, true, \"x\")",
        "coalesce(null, [1])",
    ];
    check_value(
        &texts,
        expect![[r#"
        true ? [1] : ["a", "b"] => ["1"]
        true ? [1, 2] : ["a", true] => ["1","2"]
        false ? { a = 1 } : { b = "x" } => {"b":"x"}
        true ? { a = 1 } : { a = "x" } => {"a":"1"}
        true ? [] : [1] => []
        true ? [1, true] : [1] => input.hcl:4,15-30: Inconsistent conditional result types; The true and false result expressions must have consistent types. The given expressions are tuple and tuple, respectively., and 1 other diagnostic(s)
        true ? [[1]] : [["a"]] => [["1"]]
        true ? null : [1] => null
        true ? 1 : true => input.hcl:4,15-23: Inconsistent conditional result types; The true and false result expressions must have consistent types. The given expressions are number and bool, respectively., and 1 other diagnostic(s)
        true ? [1] : true => input.hcl:4,15-25: Inconsistent conditional result types; The true and false result expressions must have consistent types. The given expressions are tuple and bool, respectively., and 1 other diagnostic(s)
        -null => input.hcl:4,8-13: Operation failed; Error during operation: argument must not be null., and 1 other diagnostic(s)
        !null => input.hcl:4,8-13: Operation failed; Error during operation: argument must not be null., and 1 other diagnostic(s)
        1 < null => input.hcl:4,8-16: Operation failed; Error during operation: argument must not be null., and 1 other diagnostic(s)
        5 % 0 => 5
        0 % 0 => 0
        1.5 % 0 => 1.5
        coalesce(null, true, "x") => "true"
        coalesce(null, [1]) => [1]"#]],
    );
}

#[test]
fn try_and_can_tell_what_failed() {
    let texts = [
        "try(1 + \"x\", nope())",
        "try()",
        "can()",
        "can(1, 2)",
        "can([1][5])",
        "convert()",
        "convert(1, number, 3)",
        "convert(1, any)",
        "convert([1], list(any))",
        "formatlist(\"%d\", [1, \"x\"])",
        "formatlist(\"%s\")",
        "rsadecrypt(\"%\", \"x\")",
    ];
    check_value(
        &texts,
        expect![[r#"
        try(1 + "x", nope()) => input.hcl:4,8-12: Error in function call; Call to function "try" failed: no expression succeeded:
        - Invalid operand (at input.hcl:4,16-19)
          Unsuitable value for right operand: a number is required.
        - Call to unknown function (at input.hcl:4,21-25)
          There is no function named "nope".

        At least one expression must produce a successful result., and 1 other diagnostic(s)
        try() => input.hcl:4,8-12: Error in function call; Call to function "try" failed: at least one argument is required., and 1 other diagnostic(s)
        can() => input.hcl:4,12-13: Not enough function arguments; Function "can" expects 1 argument(s). Missing value for "expression"., and 1 other diagnostic(s)
        can(1, 2) => input.hcl:4,15-16: Too many function arguments; Function "can" expects only 1 argument(s)., and 1 other diagnostic(s)
        can([1][5]) => false
        convert() => input.hcl:4,16-17: Not enough function arguments; Function "convert" expects 2 argument(s). Missing value for "value"., and 1 other diagnostic(s)
        convert(1, number, 3) => input.hcl:4,27-28: Too many function arguments; Function "convert" expects only 2 argument(s)., and 1 other diagnostic(s)
        convert(1, any) => 1
        convert([1], list(any)) => [1]
        formatlist("%d", [1, "x"]) => input.hcl:4,8-19: Error in function call; Call to function "formatlist" failed: error on format iteration 1: unsupported value for "%d" at 0: a number is required., and 1 other diagnostic(s)
        formatlist("%s") => input.hcl:4,8-19: Error in function call; Call to function "formatlist" failed: error on format iteration 0: not enough arguments for "%s" at 0: need index 1 but have 0 total., and 1 other diagnostic(s)
        rsadecrypt("%", "x") => input.hcl:4,8-19: Error in function call; Call to function "rsadecrypt" failed: failed to decode input "%": cipher text must be base64-encoded., and 1 other diagnostic(s)"#]],
    );
}

#[test]
fn condition_of_a_variable_is_about_that_variable() {
    let texts = [
        "condition = var.x > 1~error_message = \"Too small.\"",
        "condition = var[\"x\"] > 1~error_message = \"Too small.\"",
        "condition = length([for y in [1] : y if y == var.x]) > 0~error_message = \"Is not one.\"",
        "condition = var.x == z~error_message = \"No z.\"",
        "condition = var.x == vra.x~error_message = \"No z.\"",
        "condition = [var.x]~error_message = \"No list.\"",
        "condition = var.x > 1~error_message = upper(\"x\")",
        "condition = var.x > 0~error_message = 5",
        "error_message = \"lower\"",
        "condition = var.x > 0~error_message = \"Good.\"~more = 1",
    ];
    check(
        "variable \"x\" {\n default = 1\n validation {\n ",
        &texts,
        "\n }\n}\njob \"j\" {}\n",
        &["/ID"],
        expect![[r#"
            condition = var.x > 1~error_message = "Too small." => input.hcl:2,12-13: Invalid value for default variable; Too small.

            This was checked by the validation rule at input.hcl:3,2-12.
            condition = var["x"] > 1~error_message = "Too small." => input.hcl:4,14-22: Invalid reference in variable validation; The condition for variable "x" can only refer to the variable itself, using var.x.
            input.hcl:2,12-13: Invalid value for default variable; Too small.

            This was checked by the validation rule at input.hcl:3,2-12.
            condition = length([for y in [1] : y if y == var.x]) > 0~error_message = "Is not one." => "j"
            condition = var.x == z~error_message = "No z." => input.hcl:4,23-24: Invalid reference in variable validation; The condition for variable "x" can only refer to the variable itself, using var.x.
            input.hcl:4,23-24: Unknown variable; There is no variable named "z".
            condition = var.x == vra.x~error_message = "No z." => input.hcl:4,23-28: Invalid reference in variable validation; The condition for variable "x" can only refer to the variable itself, using var.x.
            input.hcl:4,23-26: Unknown variable; There is no variable named "vra". Did you mean "var"?
            condition = [var.x]~error_message = "No list." => input.hcl:4,14-21: Invalid variable validation result; Invalid validation condition result value: bool required.
            condition = var.x > 1~error_message = upper("x") => input.hcl:5,17-27: Function calls not allowed; Functions may not be called here.
            condition = var.x > 0~error_message = 5 => input.hcl:5,17-18: Invalid validation error message; Validation error message must be at least one full sentence starting with an uppercase letter ( if the alphabet permits it ) and ending with a period or question mark.
            error_message = "lower" => input.hcl:3,13-13: Missing required argument; The argument "condition" is required, but no definition was found.
            input.hcl:4,18-25: Invalid validation error message; Validation error message must be at least one full sentence starting with an uppercase letter ( if the alphabet permits it ) and ending with a period or question mark.
            input.hcl:3,2-12: Invalid variable validation specification; validation requires a condition.
            condition = var.x > 0~error_message = "Good."~more = 1 => input.hcl:6,1-5: Unsupported argument; An argument named "more" is not expected here."#]],
    );
}

#[test]
fn type_of_a_variable_is_exact() {
    let texts = ["any", "list(any)", "object({ a = any })", "tuple([any])", "nope", "list()", "number"];
    check(
        "variable \"x\" {\n type = ",
        &texts,
        "\n default = 1\n}\njob \"j\" {}\n",
        &["/ID"],
        expect![[r#"
        any => input.hcl:2,9-12: Invalid type specification; The keyword "any" cannot be used in this type specification: an exact type is required.
        list(any) => input.hcl:2,14-17: Invalid type specification; The keyword "any" cannot be used in this type specification: an exact type is required.
        object({ a = any }) => input.hcl:2,22-25: Invalid type specification; The keyword "any" cannot be used in this type specification: an exact type is required.
        tuple([any]) => input.hcl:2,16-19: Invalid type specification; The keyword "any" cannot be used in this type specification: an exact type is required.
        nope => input.hcl:2,9-13: Invalid type specification; The keyword "nope" is not a valid type specification.
        list() => input.hcl:2,13-15: Invalid type specification; The list type constructor requires one argument specifying the element type.
        number => "j""#]],
    );
}

#[test]
fn scaling_policies_of_a_task_are_one_for_each_resource() {
    let texts = [
        "scaling \"Cpu\" {}~scaling \"mEm\" {~max = 5~}",
        "scaling \"mem\" {}~scaling \"MEM\" {}",
        "scaling \"mem\" {~type = \"horizontal\"~}",
        "scaling \"gpu\" {}",
    ];
    let policies = ["/TaskGroups/0/Tasks/0/ScalingPolicies/0/Type", "/TaskGroups/0/Tasks/0/ScalingPolicies/1/Type"];
    check(
        "job \"j\" {\n task \"t\" {\n ",
        &texts,
        "\n }\n}\n",
        &policies,
        expect![[r#"
        scaling "Cpu" {}~scaling "mEm" {~max = 5~} => "vertical_cpu" "vertical_mem"
        scaling "mem" {}~scaling "MEM" {} => input.hcl:4,1-14: Duplicate scaling "mem" block; Only one scaling mem block is allowed. Another was defined at input.hcl:3,2-15.
        scaling "mem" {~type = "horizontal"~} => input.hcl:3,2-15: Invalid scaling policy type; Invalid policy type, expected "horizontal" but found "vertical_mem"
        scaling "gpu" {} => input.hcl:3,10-15: Invalid scaling policy name; scaling policy name must be "cpu" or "mem""#]],
    );
}

#[test]
fn json_errors_are_counted() {
    let texts = [
        "{\"job\": ",
        "{\"job\": {\"j\": {}}",
        "{\"job\": [",
        "{\"job\": @}",
        "{\"job\" = {}}",
        "{\"job\"}",
        "{\"job\": {\"j\": ]}}",
        "{\"job\": [{},]}",
        "{1: 2}",
        "{\"job\": {\"j\": {\"type\": nope}}}",
    ];
    check(
        "",
        &texts,
        "",
        &["/ID"],
        expect![[r#"
            {"job":  => input.hcl:1,9-9: Missing value; The JSON data ends prematurely., and 2 other diagnostic(s)
            {"job": {"j": {}} => input.hcl:1,1-2: Unclosed object; No closing brace was found for this JSON object., and 1 other diagnostic(s)
            {"job": [ => input.hcl:1,10-10: Missing value; The JSON data ends prematurely., and 3 other diagnostic(s)
            {"job": @} => input.hcl:1,9-10: Invalid start of value; A JSON value must start with a brace, a bracket, a number, a string, or a keyword., and 2 other diagnostic(s)
            {"job" = {}} => input.hcl:1,8-9: Missing property value colon; JSON uses a colon as its name/value delimiter, not an equals sign., and 1 other diagnostic(s)
            {"job"} => input.hcl:1,7-8: Missing object value; A JSON object attribute must have a value, introduced by a colon., and 1 other diagnostic(s)
            {"job": {"j": ]}} => input.hcl:1,15-16: Missing array element value; A JSON value must start with a brace, a bracket, a number, a string, or a keyword., and 3 other diagnostic(s)
            {"job": [{},]} => input.hcl:1,12-13: Trailing comma in array; JSON does not permit a trailing comma after the final value in an array., and 2 other diagnostic(s)
            {1: 2} => input.hcl:1,2-3: Invalid object property name; A JSON object property name must be a string, and 1 other diagnostic(s)
            {"job": {"j": {"type": nope}}} => input.hcl:1,24-28: Invalid JSON keyword; "nope" is not a valid JSON keyword."#]],
    );
}

#[test]
fn older_language_checks_constraints_spreads_and_templates() {
    let texts = [
        "job \"j\" {~constraint {~distinct_hosts = \"yes\"~}~}",
        "job \"j\" {~constraint {~distinct_hosts = 1~}~}",
        "job \"j\" {~constraint {~is_set = \"x\"~set_contains_all = \"y\"~}~}",
        "job \"j\" {~affinity {~weight = 300~}~}",
        "job \"j\" {~affinity {~weight = \"x\"~}~}",
        "job \"j\" {~spread {~target \"a\" {}~target \"a\" {}~}~}",
        "job \"j\" {~spread {~target {}~}~}",
        "job \"j\" {~spread {~target \"a\" {~value = 7~percent = 256~}~}~}",
        "job \"j\" {~task \"t\" {~template {~wait {}~}~}~}",
        "job \"j\" {~task \"t\" {~template {~uid = 5~}~}~}",
    ];
    let members = ["/Constraints", "/Affinities", "/Spreads", "/TaskGroups/0/Tasks/0/Templates/0/Uid"];
    check_v1(
        &texts,
        &members,
        expect![[r#"
        job "j" {~constraint {~distinct_hosts = "yes"~}~} => error parsing 'job': constraint -> distinct_hosts should be set to true or false; strconv.ParseBool: parsing "yes": invalid syntax
        job "j" {~constraint {~distinct_hosts = 1~}~} => [{"LTarget":"","RTarget":"","Operand":"distinct_hosts"}] null null null
        job "j" {~constraint {~is_set = "x"~set_contains_all = "y"~}~} => error parsing 'job': 2 errors occurred:
        	* constraint -> invalid key: is_set
        	* constraint -> invalid key: set_contains_all


        job "j" {~affinity {~weight = 300~}~} => null [{"LTarget":"","RTarget":"","Operand":"=","Weight":44}] null null
        job "j" {~affinity {~weight = "x"~}~} => error parsing 'job': affinity -> 1 error(s) decoding:

        * cannot parse 'weight' as int: strconv.ParseInt: parsing "x": invalid syntax
        job "j" {~spread {~target "a" {}~target "a" {}~}~} => error parsing 'job': spread -> target -> target 'a' defined more than once
        job "j" {~spread {~target {}~}~} => error parsing 'job': spread -> target -> missing spread target
        job "j" {~spread {~target "a" {~value = 7~percent = 256~}~}~} => null null [{"Attribute":"","Weight":null,"SpreadTarget":[{"Value":"7","Percent":0}]}] null
        job "j" {~task "t" {~template {~wait {}~}~}~} => error parsing 'job': task: 't', template -> 1 error(s) decoding:

        * 'wait' expected a map, got 'slice'
        job "j" {~task "t" {~template {~uid = 5~}~}~} => null null null 5"#]],
    );
}

#[test]
fn older_language_reads_json_and_heredocs_with_an_indented_end() {
    let texts = [
        "{\"job\": {\"j\": {\"meta\": {\"v\": 1}}}}",
        "  {\"job\": {\"j\": {\"type\": \"a\"}}}",
        "job \"j\" {~type = <<E~ a~  E~}~",
        "job \"j\" {~type = <<-E~  a~   b~  E~}~",
        "job \"j\" {~type = }",
        "job \"j\" {~type = }}",
        "job \"j\" {~type }}",
    ];
    check_v1(
        &texts,
        &["/Type", "/Meta"],
        expect![[r#"
        {"job": {"j": {"meta": {"v": 1}}}} => error parsing 'job': 1 error occurred:
        	* job: invalid key: v


          {"job": {"j": {"type": "a"}}} => "a" null
        job "j" {~type = <<E~ a~  E~}~ => " a\n  " null
        job "j" {~type = <<-E~  a~   b~  E~}~ => "a\n b\n" null
        job "j" {~type = } => error parsing: At 2:9: object expected closing RBRACE got: EOF
        job "j" {~type = }} => null null
        job "j" {~type }} => error parsing: At 2:6: key 'type' expected start of object ('{') or assignment ('=')"#]],
    );
}
