//! The error text for any malformed body is short: job files, policies, jobs, variables and auth methods with pieces
//! removed, inserted and repeated. The check is the fuzzer's, `http::http`.

use proptest::prelude::*;

/// Valid requests to mutate.
const REQUESTS: &[&str] = &[
    "PUT /v1/jobs/parse\n\n{\"JobHCL\": \"variable \\\"n\\\" {\\n type = list(number)\\n default = [1, 2]\\n}\\njob \\\"web\\\" {\\n datacenters = \
     [\\\"dc1\\\"]\\n meta { a = \\\"${upper(\\\"x\\\")}\\\" }\\n group \\\"g\\\" {\\n count = max(var.n...)\\n dynamic \\\"task\\\" {\\n for_each = \
     [\\\"a\\\"]\\n labels = [task.value]\\n content {\\n driver = \\\"raw_exec\\\"\\n config { command = \\\"x\\\" }\\n }\\n }\\n }\\n}\", \
     \"Canonicalize\": true}",
    "PUT /v1/jobs/parse\n\n{\"JobHCL\": \"{\\\"job\\\": {\\\"web\\\": {\\\"group\\\": {\\\"g\\\": {\\\"count\\\": \\\"${1 + 1}\\\", \\\"task\\\": \
     {\\\"t\\\": {\\\"driver\\\": \\\"exec\\\", \\\"config\\\": {\\\"args\\\": [\\\"a\\\", {}]}}}}}}}}\"}",
    "PUT /v1/jobs/parse\n\n{\"hclv1\": true, \"JobHCL\": \"job \\\"web\\\" { group \\\"g\\\" { task \\\"t\\\" { driver = \\\"exec\\\" config { a = \
     \\\"b\\\" } } } }\"}",
    "PUT /v1/acl/policy/p\n\n{\"Name\": \"p\", \"Rules\": \"namespace \\\"dev-*\\\" { policy = \\\"read\\\" capabilities = [\\\"submit-job\\\"] variables { \
     path \\\"a/*\\\" { capabilities = [\\\"read\\\"] } } } node { policy = \\\"write\\\" }\"}",
    "PUT /v1/jobs\n\n{\"Job\": {\"ID\": \"web\", \"Name\": \"web\", \"Type\": \"service\", \"Datacenters\": [\"dc1\"], \"Priority\": 50, \"TaskGroups\": \
     [{\"Name\": \"g\", \"Count\": 1, \"Tasks\": [{\"Name\": \"t\", \"Driver\": \"exec\", \"Config\": {\"command\": \"x\"}, \"Resources\": {\"CPU\": \
     100, \"MemoryMB\": 64}}]}]}}",
    "PUT /v1/var/a/b?cas=0\n\n{\"Namespace\": \"default\", \"Path\": \"a/b\", \"Items\": {\"k\": \"v\"}}",
    "PUT /v1/acl/auth-method\n\n{\"Name\": \"m\", \"Type\": \"JWT\", \"TokenLocality\": \"local\", \"MaxTokenTTL\": \"10m\", \"Config\": \
     {\"JWTValidationPubKeys\": [\"x\"], \"SigningAlgs\": [\"ES256\"]}}",
    "GET /v1/jobs?filter=ID%20matches%20%22a.*%22%20and%20not%20(Status%20in%20Meta)\n\n",
];

/// Mutation of a body at a position: some bytes are removed, a text is inserted, and bytes before the position are
/// repeated.
#[derive(Debug, Clone)]
struct Mutation {
    at: prop::sample::Index,
    removed: usize,
    put: String,
    repeated: usize,
}

fn mutation() -> impl Strategy<Value = Mutation> {
    let put = prop_oneof![
        Just(String::new()),
        "[\\[\\]{}()\"\\\\$%:,.=*/0-9a-zA-Z ]{1,12}",
        "\\PC{1,6}",
        Just("x".repeat(5000)),
        Just("\\\"".repeat(3000)),
        Just("${".repeat(40)),
        Just("1e400".to_owned()),
    ];
    (any::<prop::sample::Index>(), 0..6_usize, put, prop_oneof![4 => Just(0), 1 => 1..200_usize])
        .prop_map(|(at, removed, put, repeated)| Mutation { at, removed, put, repeated })
}

fn mutated(request: &str, mutations: &[Mutation]) -> Vec<u8> {
    let (head, body) = request.split_once("\n\n").unwrap_or((request, ""));
    let mut bytes = body.as_bytes().to_vec();
    for Mutation { at, removed, put, repeated } in mutations {
        let at = at.index(bytes.len() + 1);
        let before = bytes[at.saturating_sub(*repeated)..at].repeat(if *repeated > 0 { 20 } else { 0 });
        let end = (at + removed).min(bytes.len());
        bytes.splice(at..end, [put.as_bytes(), &before].concat());
    }
    [head.as_bytes(), b"\n\n", &bytes].concat()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn error_text_is_bounded_for_any_mutated_request(
        request in prop::sample::select(REQUESTS),
        mutations in prop::collection::vec(mutation(), 0..6),
    ) {
        crate::http::http(&mutated(request, &mutations));
    }
}
