//! Stories that need answers or bounds.

use std::collections::{BTreeMap, BTreeSet};

use expect_test::{Expect, expect};
use songline_model::ServiceRegistration;

use super::{Nobody, consul};
use crate::template::consul::nomad::{self, Variable};
use crate::template::consul::{Functions, Question, VariableName};
use crate::template::{Bounds, MissingKey, NoLibrary, Options, Template, Value};

fn web() -> VariableName {
    VariableName { path: "nomad/jobs/web".to_owned(), namespace: "default".to_owned(), region: "global".to_owned() }
}

/// A world that knows one variable and one service.
fn known() -> Nobody {
    let items = [("a", "1"), ("b", "two words"), ("c_d", "x")];
    let variable = Variable {
        path: web().path,
        namespace: web().namespace,
        create_index: 7,
        modify_index: 9,
        items: items.map(|(key, text)| (key.to_owned(), text.to_owned())).into(),
        ..Variable::default()
    };
    let row = ServiceRegistration {
        service_name: "db".into(),
        address: "127.0.0.1".into(),
        port: 5432,
        tags: vec!["primary".into(), "v2".into()],
        ..ServiceRegistration::default()
    };
    let answers = vec![
        (Question::Variable(web()), variable.value()),
        (Question::VariableList(web()), Value::list(vec![variable.listed()])),
        (Question::VariableExists(web()), Value::Bool(true)),
        (Question::Service { name: "db".to_owned(), choose: None }, Value::list(vec![nomad::service(&row)])),
        (Question::Services, Value::list(vec![nomad::service_name("db", ["primary"])])),
    ];
    Nobody { answers: answers.into() }
}

fn story(texts: &[&str], missing_key: MissingKey, expected: Expect) {
    let lines: Vec<String> = texts.iter().map(|text| consul(text, &known(), missing_key)).collect();
    expected.assert_eq(&lines.join("\n"));
}

#[test]
fn variable_is_a_map_with_methods() {
    story(
        &[
            "{{ with $v := nomadVar \"nomad/jobs/web\" }}{{ $v.Path }}|{{ $v.a }}|{{ index $v \"b\" }}|{{ len $v }}{{ end }}",
            "{{ range $k, $x := nomadVar \"nomad/jobs/web\" }}{{ $k }}={{ $x }};{{ end }}",
            "{{ with nomadVar \"nomad/jobs/web\" }}{{ .Keys }} {{ .Values }} {{ range .Tuples }}{{ .K }}:{{ .V }} {{ end }}{{ end }}",
            "{{ with nomadVar \"nomad/jobs/web\" }}{{ .Metadata.ModifyIndex }} {{ .Parent.Path }} {{ .a.Parent.Path }}{{ end }}",
            "{{ with nomadVar \"nomad/jobs/web@default.global\" }}{{ . | toJSON }} {{ .ItemsMap | toYAML }}{{ end }}",
            "{{ range nomadVarList \"nomad/jobs/web\" }}<{{ . }} {{ .Path }} {{ .Namespace }}>{{ end }}",
            "{{ nomadVarExists \"nomad/jobs/web\" }} {{ nomadVarExists \"other\" }}",
        ],
        MissingKey::Zero,
        expect![[r#"
            = "|1|two words|3"
            = "a=1;b=two words;c_d=x;"
            = "[a b c_d] [1 two words x] a:1 b:two words c_d:x "
            = "9 nomad/jobs/web nomad/jobs/web"
            = "{\"a\":\"1\",\"b\":\"two words\",\"c_d\":\"x\"} a: \"1\"\nb: two words\nc_d: x"
            = "<nomad/jobs/web nomad/jobs/web default>"
            = "true false" nomad.var.get(other@default.global)"#]],
    );
}

#[test]
fn missing_key_of_a_variable_is_empty_or_an_error() {
    let text = "{{ with nomadVar \"nomad/jobs/web\" }}{{ .none }}{{ end }}";
    story(&[text], MissingKey::Zero, expect![[r#"= """#]]);
    story(
        &[text],
        MissingKey::Error,
        expect![[r#"! "template: :1:39: executing \"\" at <.none>: map has no entry for key \"none\"""#]],
    );
}

#[test]
fn services_are_lists_of_registrations() {
    story(
        &[
            "{{ range nomadService \"db\" }}{{ .Name }} {{ .Address }}:{{ .Port }} {{ .Tags }} {{ .Tags | join \",\" }}{{ end }}",
            "{{ range nomadService \"db\" }}{{ if .Tags.Contains \"v2\" }}new{{ end }}{{ if .Tags | contains \"v3\" }}newer{{ end }}{{ end }}",
            "{{ range nomadServices }}{{ .Name }} {{ .Tags }}{{ end }}",
            "{{ range nomadService \"none\" }}x{{ else }}nobody{{ end }}{{ nomadService 1 \"key\" \"db\" | len }}",
        ],
        MissingKey::Zero,
        expect![[r#"
            = "db 127.0.0.1:5432 [primary v2] primary,v2"
            = "new"
            = "db [primary]"
            = "nobody0" nomad.service(db:1|key) nomad.service(none)"#]],
    );
}

#[test]
fn all_missing_answers_are_collected_in_one_rendering() {
    story(
        &[
            "{{ key \"some/key\" }} {{ keyOrDefault \"some/other\" \"d\" }} {{ with secret \"kv/x\" }}{{ .Data }}{{ end }}",
            "{{ with nomadVar \"a\" }}{{ .x }}{{ end }}{{ with nomadVar \"b@ns\" }}{{ .x }}{{ end }}",
        ],
        MissingKey::Zero,
        expect![[r#"
            = " d " kv.block(some/key) kv.get(some/other) vault.read(kv/x)
            = "" nomad.var.block(a@default.global) nomad.var.block(b@ns.global)"#]],
    );
}

#[test]
fn times_follow_go_layouts() {
    story(
        &[
            "{{ timestamp }} {{ timestamp \"unix\" }} {{ timestamp \"2006-01-02 15:04:05.000\" }}",
            "{{ timestamp \"Mon Jan _2 3:04PM 2006 MST -0700 January Monday .999 02/1/06\" }}",
        ],
        MissingKey::Zero,
        expect![[r#"
            = "2006-01-02T15:04:05Z 1136214245 2006-01-02 15:04:05.123"
            = "Mon Jan  2 3:04PM 2006 UTC +0000 January Monday .123 02/1/06""#]],
    );
}

#[test]
fn denied_functions_fail_and_hmac_is_that_of_rfc_4231() {
    story(
        &["{{ plugin \"x\" }}", "{{ hmacSHA256Hex \"what do ya want for nothing?\" \"Jefe\" }}"],
        MissingKey::Zero,
        expect![[r#"
            ! "template: :1:3: executing \"\" at <plugin \"x\">: error calling plugin: function is disabled"
            = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843""#]],
    );
}

#[test]
fn delimiters_can_be_others() {
    let options = Options { left: "<%".to_owned(), right: "%>".to_owned(), ..Options::default() };
    let template = Template::parse("t", "<% . -%>  {{ x }} <%- `}}` %>", &options, &NoLibrary).unwrap();
    let output = template.render(Value::Int(3), &NoLibrary, Bounds::default()).unwrap();
    assert_eq!(String::from_utf8(output).unwrap(), "3{{ x }}}}");
}

#[test]
fn bytes_that_are_no_text_are_written_as_they_are() {
    let template = Template::parse("t", "{{ \"a\\xff\\x80é\" }}", &Options::default(), &NoLibrary).unwrap();
    let output = template.render(Value::Nil, &NoLibrary, Bounds::default()).unwrap();
    assert_eq!(output, b"a\xff\x80\xc3\xa9");
}

#[test]
fn endless_templates_end_with_an_error() {
    let list: BTreeMap<_, _> = [("l".into(), Value::list(vec![Value::Nil; 1000]))].into();
    let small = Bounds { steps: 100_000, bytes: 100_000 };
    let error = |text: &str| {
        let template = Template::parse("t", text, &Options::default(), &NoLibrary).unwrap();
        template.render(Value::map(list.clone()), &NoLibrary, small).unwrap_err().to_string()
    };
    let texts = [
        "{{ define \"r\" }}{{ template \"r\" }}{{ end }}{{ template \"r\" }}",
        "{{ range .l }}{{ range $.l }}{{ range $.l }}{{ end }}{{ end }}{{ end }}",
        "{{ $x := \"0123456789\" }}{{ range .l }}{{ $x = print $x $x }}{{ end }}",
        "{{ printf \"%999999d\" 1 }}",
    ];
    expect![[r#"
        template: t:1:28: executing "r" at <{{template "r"}}>: exceeded maximum template depth (150)
        template: t:1:39: executing "t" at <$.l>: the template takes too many steps
        template: t:1:46: executing "t" at <print $x $x>: the template makes too much text
        template: t:1:3: executing "t" at <printf "%999999d" 1>: the template makes too much text"#]]
    .assert_eq(&texts.map(error).join("\n"));
}

#[test]
fn questions_to_consul_are_named_as_the_reference_names_them() {
    story(
        &[
            "{{ key \"a/b@dc1\" }}{{ keyExists \"/a\" }}{{ keyOrDefault \"a?ns=x@dc1\" \"d\" }}{{ len (ls \"a\") }}",
            "{{ len (service \"v1.db@dc1~_agent|warning,any\") }}{{ len (service \"db\" \"any\") }}{{ len (connect \"db\") }}",
            "{{ len (services) }}{{ len (services \"@dc2\") }}{{ with node \"n1@dc1\" }}{{ end }}{{ with node }}{{ end }}",
            "{{ len (nodes \"@dc1~n1\") }}{{ len (nodes) }}{{ len (datacenters) }}{{ len (datacenters true) }}",
            "{{ key \"\" }}{{ keyExists \"\" }}{{ keyOrDefault \"\" \"d\" }}{{ len (ls \"\") }}{{ len (service \"\") }}",
            "{{ len (tree \"a\") }}{{ len (safeTree \"a\") }}",
        ],
        MissingKey::Zero,
        expect![[r#"
            = "falsed0" kv.block(a/b@dc1) kv.exists(a) kv.get(a?ns=x@dc1) kv.list(a)
            = "000" health.connect(db|passing) health.service(db|any) health.service(v1.db@dc1~_agent|any,warning)
            = "00" catalog.node catalog.node(n1@dc1) catalog.services catalog.services(@dc2)
            = "0000" catalog.datacenters catalog.datacenters catalog.nodes catalog.nodes(@dc1~n1)
            = "falsed00"
            = "00" kv.list(a)"#]],
    );
    story(
        &[
            "{{ key \"a@b@c\" }}",
            "{{ service \"db|odd\" }}",
            "{{ service \"a b\" }}",
            "{{ services \"dc1\" }}",
            "{{ node \"@dc1\" }}",
            "{{ datacenters true false }}",
            "{{ service 1 }}",
        ],
        MissingKey::Zero,
        expect![[r#"
            ! "template: :1:3: executing \"\" at <key \"a@b@c\">: error calling key: kv.get: invalid format: \"a@b@c\""
            ! "template: :1:3: executing \"\" at <service \"db|odd\">: error calling service: health.service: invalid filter: \"odd\" in \"db|odd\""
            ! "template: :1:3: executing \"\" at <service \"a b\">: error calling service: health.service: invalid format: \"a b\""
            ! "template: :1:3: executing \"\" at <services \"dc1\">: error calling services: catalog.services: invalid format: \"dc1\""
            ! "template: :1:3: executing \"\" at <node \"@dc1\">: error calling node: catalog.node: invalid format: \"@dc1\""
            ! "template: :1:3: executing \"\" at <datacenters true false>: error calling datacenters: datacenters: wrong number of arguments, expected 0 or 1, but got 2"
            ! "template: :1:11: executing \"\" at <1>: expected string; found 1""#]],
    );
}

#[test]
fn random_values_are_the_same_when_a_template_is_rendered_again() {
    let text =
        "{{ sprig_uuidv4 }} {{ sprig_randAlphaNum 20 }} {{ sprig_randInt 0 1000000 }} {{ sprig_shuffle \"abcdefgh\" }}";
    let once = consul(text, &known(), MissingKey::Zero);
    assert_eq!(once, consul(text, &known(), MissingKey::Zero));
    let twice = consul("{{ sprig_randAlpha 20 }} {{ sprig_randAlpha 20 }}", &known(), MissingKey::Zero);
    let words: Vec<&str> = twice.trim_matches(['=', ' ', '"']).split(' ').collect();
    assert!(words.len() == 2 && words[0] != words[1], "{twice}");
}

#[test]
fn sprig_times_are_those_of_the_world_in_utc() {
    story(
        &[
            "{{ sprig_now }} {{ sprig_now | sprig_date \"2006-01-02\" }} {{ sprig_now | sprig_unixEpoch }}",
            "{{ sprig_ago (sprig_toDate \"2006-01-02\" \"2006-01-02\") }} {{ sprig_date \"15:04\" nil }}",
            "{{ sprig_dateInZone \"2006-01-02 15:04:05 -0700 MST\" sprig_now \"America/New_York\" }}",
        ],
        MissingKey::Zero,
        expect![[r#"
            = "2006-01-02 15:04:05.123 +0000 UTC 2006-01-02 1136214245"
            = "15h4m5s 15:04"
            = "2006-01-02 10:04:05 -0500 EST""#]],
    );
}

#[test]
fn values_that_grow_by_sharing_are_refused() {
    let error = |text: &str| consul(text, &known(), MissingKey::Zero);
    let deep = error("{{ $x := sprig_list }}{{ range loop 1000000 }}{{ $x = sprig_list $x }}{{ end }}");
    assert!(deep.contains("the value is nested too deeply"), "{deep}");
    let kept =
        "{{ scratch.Set \"x\" 1 }}{{ range loop 1000 }}{{ scratch.MapSet \"m\" \"k\" (scratch.Get \"m\") }}{{ end }}";
    let deep = error(kept);
    assert!(deep.contains("the value is nested too deeply"), "{deep}");
    let large = error("{{ $x := sprig_list 1 }}{{ range loop 100 }}{{ $x = sprig_list $x $x }}{{ end }}{{ $x }}");
    assert!(large.contains("the value is too large"), "{large}");
}

#[test]
fn text_longer_than_the_bound_is_refused_before_it_is_made() {
    let mebibyte = "{{ $a := sprig_repeat 1048576 \"a\" }}{{ $l := sprig_until 1000000 }}";
    let calls = [
        "sprig_replace \"\" $a $a",
        "replaceAll \"\" $a $a",
        "sprig_regexReplaceAll \"a\" $a $a",
        "sprig_regexReplaceAll \".+\" $a (sprig_repeat 100 \"${0}\")",
        "sprig_mustRegexReplaceAllLiteral \"a\" $a $a",
        "regexReplaceAll \"\" $a $a",
        "sprig_wrapWith 1 $a $a",
        "sprig_join $a $l",
        "join $a (sprig_splitList \"\" $a)",
        "sprig_repeat 1000 $a",
        "sprig_indent 1000 (sprig_repeat 100000 \"\\n\")",
        "indent 10000 (sprig_repeat 100000 \"a\\n\")",
    ];
    for call in calls {
        let said = consul(&format!("{mebibyte}{{{{ {call} }}}}"), &known(), MissingKey::Zero);
        assert!(said.contains("the text is longer than 67108864 bytes"), "{call}: {}", said.len());
    }
    let many = format!("{mebibyte}{{{{ sprig_cat {} }}}}", "$a ".repeat(200));
    assert!(consul(&many, &known(), MissingKey::Zero).contains("the value is too large"));
}

#[test]
fn functions_of_long_lists_and_texts_end_soon() {
    let before = "{{ $a := sprig_repeat 1048576 \"a\" }}{{ $l := sprig_until 1000000 }}{{ $m := sprig_until 300000 }}";
    let calls = [
        ("len (sprig_uniq $l)", "= \"1000000\""),
        ("len (sprig_wrapWith 1 \"\" $a)", "= \"2097151\""),
        ("len (sprig_trimAll $a (sprig_repeat 1048576 \"b\"))", "= \"1048576\""),
        ("sprig_first (sprig_without $l 0 2)", "= \"1\""),
        ("containsAll (sprig_concat $m) $m", "= \"true\""),
    ];
    for (call, expected) in calls {
        let said = consul(&format!("{before}{{{{ {call} }}}}"), &known(), MissingKey::Zero);
        assert_eq!(said, expected, "{call}");
    }
    let (world, denied) = (known(), BTreeSet::new());
    let functions = Functions::new(&world, "default", "global", &denied);
    let text = "{{ $l := sprig_until 1000 }}{{ range $l }}{{ sprig_has -1 $l }}{{ end }}";
    let template = Template::parse("", text, &Options::default(), &functions).unwrap();
    let render = |steps| template.render(Value::Nil, &functions, Bounds { steps, ..Bounds::default() });
    assert!(render(100_000).is_ok());
    let error = render(10_000).unwrap_err().to_string();
    assert!(error.contains("the template takes too many steps"), "{error}");
}
