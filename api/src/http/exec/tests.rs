//! Refusals before an upgrade, and the content of messages.

use axum::http::{HeaderMap, HeaderName, HeaderValue, Method};
use expect_test::{Expect, expect};

use super::{command, fault, frame};

fn refusals(requests: &[(&Method, &str)], expected: Expect) {
    let mut shown = String::new();
    for (method, lines) in requests {
        let pairs = lines.split('|').filter_map(|line| line.split_once(": "));
        let headers: HeaderMap = pairs
            .map(|(name, value)| {
                (HeaderName::try_from(name).expect("a name"), HeaderValue::try_from(value).expect("a value"))
            })
            .collect();
        let answer =
            fault(method, &headers).map_or("upgraded".to_owned(), |(code, why)| format!("{} {why}", code.as_u16()));
        shown.push_str(&format!("{method} {lines}\n    {answer}\n"));
    }
    expected.assert_eq(&shown);
}

#[test]
fn websocket_upgrade_needs_a_valid_handshake_and_no_foreign_origin() {
    let get = &Method::GET;
    refusals(
        &[
            (get, ""),
            (get, "connection: keep-alive, Upgrade"),
            (&Method::POST, "connection: upgrade|upgrade: websocket"),
            (get, "connection: upgrade|upgrade: websocket|sec-websocket-version: 8"),
            (get, "connection: upgrade|upgrade: websocket|sec-websocket-version: 13|sec-websocket-key: short"),
            (
                get,
                "connection: upgrade|upgrade: websocket|sec-websocket-version: 13|sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==",
            ),
            (
                get,
                "connection: upgrade|upgrade: websocket|sec-websocket-version: 13|sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==|host: \
                 here:1|origin: http://here:1",
            ),
            (
                get,
                "connection: upgrade|upgrade: websocket|sec-websocket-version: 13|sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==|host: \
                 here:1|origin: http://there:1",
            ),
        ],
        expect![[r#"
            GET 
                400 the client is not using the websocket protocol: 'upgrade' token not found in 'Connection' header
            GET connection: keep-alive, Upgrade
                400 the client is not using the websocket protocol: 'websocket' token not found in 'Upgrade' header
            POST connection: upgrade|upgrade: websocket
                405 the client is not using the websocket protocol: request method is not GET
            GET connection: upgrade|upgrade: websocket|sec-websocket-version: 8
                400 unsupported version: 13 not found in 'Sec-Websocket-Version' header
            GET connection: upgrade|upgrade: websocket|sec-websocket-version: 13|sec-websocket-key: short
                400 not a websocket handshake: 'Sec-WebSocket-Key' header must be Base64 encoded value of 16-byte in length
            GET connection: upgrade|upgrade: websocket|sec-websocket-version: 13|sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==
                upgraded
            GET connection: upgrade|upgrade: websocket|sec-websocket-version: 13|sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==|host: here:1|origin: http://here:1
                upgraded
            GET connection: upgrade|upgrade: websocket|sec-websocket-version: 13|sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==|host: here:1|origin: http://there:1
                403 request origin not allowed by Upgrader.CheckOrigin
        "#]],
    );
}

#[test]
fn malformed_exec_messages_are_errors_and_extreme_sizes_are_clamped() {
    let messages = [
        "{}",
        r#"{"stdin":{"data":"aGk="}}"#,
        r#"{"stdin":{"data":"aGk=","close":true},"tty_size":{"height":24,"width":80}}"#,
        r#"{"tty_size":{"height":-1,"width":99999999999}}"#,
        r#"{"stdin":{"data":"!"}}"#,
        r#"{"stdin":{"data":[1]}}"#,
        r#"{"stdin":null,"other":[[[]]]}"#,
        "",
        "[",
        "\u{0}",
    ];
    let mut shown = String::new();
    for message in messages {
        shown.push_str(&format!("{message:?}\n    {:?}\n", frame::read(message.as_bytes())));
    }
    shown.push_str(&format!("deep nesting\n    {:?}\n", frame::read("[".repeat(100_000).as_bytes()).is_err()));
    expect![[r#"
        "{}"
            Ok([])
        "{\"stdin\":{\"data\":\"aGk=\"}}"
            Ok([Stdin(b"hi")])
        "{\"stdin\":{\"data\":\"aGk=\",\"close\":true},\"tty_size\":{\"height\":24,\"width\":80}}"
            Ok([TtySize { height: 24, width: 80 }, Stdin(b"hi"), StdinClose])
        "{\"tty_size\":{\"height\":-1,\"width\":99999999999}}"
            Ok([TtySize { height: 0, width: 65535 }])
        "{\"stdin\":{\"data\":\"!\"}}"
            Err("illegal base64 data: Invalid symbol 33, offset 0.")
        "{\"stdin\":{\"data\":[1]}}"
            Err("json: cannot unmarshal array into Go struct field ExecTaskStreamingIOOperation.stdin.data of type string")
        "{\"stdin\":null,\"other\":[[[]]]}"
            Ok([])
        ""
            Err("EOF")
        "["
            Err("unexpected EOF")
        "\0"
            Err("invalid character '\\x00' looking for beginning of value")
        deep nesting
            true
    "#]]
    .assert_eq(&shown);
}

#[test]
fn exec_command_is_a_json_list_of_strings() {
    let mut shown = String::new();
    for text in [r#"["sh","-c","ls"]"#, "null", "[]", "", "ls", "[1]", r#""ls""#, r#"["#] {
        let read = command(text).map_err(|error| error.text.into_owned());
        shown.push_str(&format!("{text}\n    {read:?}\n"));
    }
    expect![[r#"
        ["sh","-c","ls"]
            Ok(["sh", "-c", "ls"])
        null
            Ok([])
        []
            Ok([])

            Err("failed to marshal command into json: unexpected end of JSON input")
        ls
            Err("failed to marshal command into json: invalid character 'l' looking for beginning of value")
        [1]
            Err("failed to marshal command into json: json: cannot unmarshal number into Go value of type string")
        "ls"
            Err("failed to marshal command into json: json: cannot unmarshal string into Go value of type []string")
        [
            Err("failed to marshal command into json: unexpected end of JSON input")
    "#]]
    .assert_eq(&shown);
}
