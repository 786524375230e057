//! Requests of checks from job files, and their runs against small servers.

use std::sync::Arc;

use expect_test::{Expect, expect};
use songline_model::{
    AllocatedPortMapping, AllocatedResources, Allocation, Dur, Job, Service, ServiceCheck, Str, TaskGroup,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;
use crate::core::{CheckMode, CheckPlan, CheckRequest, CheckVerdict, Workload};
use crate::env::TaskEnv;
use crate::services::Located;

fn with_checks(service: Service) -> Allocation {
    let group = TaskGroup { name: "g".into(), services: Some(vec![service]), ..TaskGroup::default() };
    let mut resources = AllocatedResources::default();
    resources.shared.ports =
        Some(vec![AllocatedPortMapping { label: "web".into(), value: 2000, to: 0, host_ip: "10.0.0.1".into() }]);
    Allocation {
        name: "job.g[0]".into(),
        task_group: "g".into(),
        job: Some(Arc::new(Job { task_groups: Some(vec![group]), ..Job::default() })),
        allocated_resources: Some(Arc::new(resources)),
        ..Allocation::default()
    }
}

fn service(checks: Vec<ServiceCheck>) -> Service {
    Service {
        name: "web".into(),
        provider: "nomad".into(),
        port_label: "web".into(),
        checks: Some(checks),
        ..Service::default()
    }
}

fn http(path: &str) -> ServiceCheck {
    ServiceCheck { kind: "http".into(), path: path.into(), interval: Dur::from_secs(10), ..ServiceCheck::default() }
}

fn planned(service: Service) -> Vec<CheckPlan> {
    let mut env = TaskEnv::default();
    env.vars.insert("P".to_owned(), "//other/x".to_owned());
    let located = Located { alloc: &with_checks(service), network: None, driver: None };
    plans(located, &env, &|_| None)
}

fn check_requests(service: Service, expected: Expect) {
    let told = planned(service).into_iter().map(|plan| match plan.request {
        CheckRequest::Http { method, url, headers, body } => format!("{method} {url} {headers:?} {:?}", body.as_str()),
        CheckRequest::Tcp { address } => format!("connect to {address}"),
        CheckRequest::AtConsul => "at Consul".to_owned(),
        CheckRequest::Impossible(reason) => format!("impossible: {reason}"),
    });
    expected.assert_eq(&told.collect::<Vec<_>>().join("\n"));
}

#[test]
fn check_goes_to_its_port_at_the_host_or_at_the_address_of_its_service() {
    let tcp = |label: &str| ServiceCheck { kind: "tcp".into(), port_label: label.into(), ..ServiceCheck::default() };
    let post = ServiceCheck {
        method: "post".into(),
        protocol: "https".into(),
        body: "x".into(),
        header: Some([("X-A".into(), Some(vec!["1".into(), "2".into()]))].into()),
        ..http("/a?b=c")
    };
    check_requests(
        service(vec![http("/"), http(""), post, tcp(""), tcp("1"), tcp("none")]),
        expect![[r#"
            GET http://10.0.0.1:2000/ [] ""
            GET http://10.0.0.1:2000/ [] ""
            POST https://10.0.0.1:2000/a?b=c [("X-A", "1"), ("X-A", "2")] "x"
            connect to 10.0.0.1:2000
            connect to :1
            impossible: invalid port "none": port label not found"#]],
    );
    check_requests(
        Service { address: "web.example".into(), ..service(vec![http("/"), tcp("")]) },
        expect![[r#"
        GET http://web.example:2000/ [] ""
        connect to web.example:2000"#]],
    );
    let alloc = ServiceCheck { address_mode: "alloc".into(), ..http("/") };
    check_requests(
        service(vec![alloc]),
        expect![[r#"impossible: cannot use address_mode="alloc": no allocation network status reported"#]],
    );
}

#[test]
fn attack_path_of_a_check_that_names_another_host_makes_no_request() {
    let paths = ["//other/x", "http://other/x", "https://10.0.0.1/x", "file:///etc/passwd", "${P}", "\\\\other\\x"];
    check_requests(
        service(paths.iter().map(|path| http(path)).collect()),
        expect![[r#"
        impossible: invalid check path "//other/x": it names another host
        impossible: invalid check path "http://other/x": it names another host
        impossible: invalid check path "https://10.0.0.1/x": it names another host
        impossible: invalid check path "file:///etc/passwd": it names another host
        impossible: invalid check path "//other/x": it names another host
        impossible: invalid check path "\\\\other\\x": it names another host"#]],
    );
}

#[test]
fn check_with_another_request_has_another_id_and_the_same_one_keeps_it() {
    let ids = |path: &str, on_update: &str| -> Vec<Str> {
        let check = ServiceCheck { on_update: on_update.into(), ..http(path) };
        planned(service(vec![check])).into_iter().map(|plan| plan.id).collect()
    };
    assert_eq!(ids("/a", ""), ids("/a", ""));
    assert_ne!(ids("/a", ""), ids("/b", ""));
    assert_ne!(ids("/a", ""), ids("/a", "ignore"));
}

/// Serves HTTP answers by path, and never answers `/never`.
async fn serve(listener: TcpListener) {
    while let Ok((mut stream, _)) = listener.accept().await {
        tokio::spawn(async move {
            let mut request = vec![0; 4096];
            let count = stream.read(&mut request).await.unwrap_or(0);
            let request = String::from_utf8_lossy(&request[..count]).into_owned();
            let path = request.split(' ').nth(1).unwrap_or_default().to_owned();
            let answer = match path.as_str() {
                "/ok" => "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nfine".to_owned(),
                "/endless" => format!("HTTP/1.1 500 Oh\r\n\r\n{}", "x".repeat(100_000)),
                "/away" => "HTTP/1.1 302 Found\r\nlocation: /show\r\ncontent-length: 0\r\n\r\n".to_owned(),
                "/file" => "HTTP/1.1 302 Found\r\nlocation: file:///etc/passwd\r\ncontent-length: 0\r\n\r\n".to_owned(),
                "/same" => "HTTP/1.1 304 Not Modified\r\nlocation: /show\r\n\r\n".to_owned(),
                "/never" => return std::future::pending().await,
                "/close" => return,
                _ => {
                    let shown: Vec<&str> = request.lines().filter(|line| !line.starts_with("User-Agent")).collect();
                    let shown = shown.join("|");
                    format!("HTTP/1.1 201 Made\r\ncontent-length: {}\r\n\r\n{shown}", shown.len())
                }
            };
            let _ = stream.write_all(answer.as_bytes()).await;
        });
    }
}

async fn outcome(request: CheckRequest) -> String {
    let plan = CheckPlan {
        id: "1".into(),
        of: Workload::Group,
        group: "g".into(),
        service: "s".into(),
        name: "c".into(),
        mode: CheckMode::Healthiness,
        interval: Dur::from_secs(1),
        timeout: Dur::from_millis(500),
        restart: None,
        request,
    };
    let outcome = Runs::default().run(&plan).await;
    let output = match outcome.output.len() {
        long @ 1000.. => format!("{long} bytes"),
        _ => outcome.output.to_string(),
    };
    let passed = outcome.verdict == CheckVerdict::Passed;
    format!("{} {:?} {output}", if passed { "passed" } else { "failed" }, outcome.code)
}

#[tokio::test]
async fn outcome_of_a_check_tells_the_answer_or_the_error() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    tokio::spawn(serve(listener));
    let closed = TcpListener::bind("127.0.0.1:0").await.expect("a port").local_addr().expect("an address").port();
    let get = |scheme: &str, port: u16, path: &str| CheckRequest::Http {
        method: "GET".into(),
        url: format!("{scheme}://127.0.0.1:{port}{path}").into(),
        headers: Vec::new(),
        body: Str::default(),
    };
    let shown = CheckRequest::Http {
        method: "POST".into(),
        url: format!("http://:{port}/show").into(),
        headers: vec![
            ("X-One".into(), "a".into()),
            ("X-One".into(), "b".into()),
            ("Host".into(), "other.example".into()),
        ],
        body: "body".into(),
    };
    let split = CheckRequest::Http {
        method: "GET".into(),
        url: format!("http://127.0.0.1:{port}/show").into(),
        headers: vec![("X-One".into(), "a\r\nX-Two: b".into())],
        body: Str::default(),
    };
    let requests = vec![
        get("http", port, "/ok"),
        get("http", port, "/endless"),
        get("http", port, "/never"),
        get("http", port, "/away"),
        get("http", port, "/file"),
        get("http", port, "/same"),
        get("http", port, "/close"),
        get("https", port, "/ok"),
        get("http", closed, "/ok"),
        shown,
        split,
        CheckRequest::Tcp { address: format!("127.0.0.1:{port}").into() },
        CheckRequest::Tcp { address: format!(":{closed}").into() },
        CheckRequest::Impossible("no port".into()),
    ];
    let mut told = Vec::new();
    for request in requests {
        told.push(outcome(request).await);
    }
    let told = told.join("\n").replace(&port.to_string(), "PORT").replace(&closed.to_string(), "CLOSED");
    expect![[r#"
        passed Some(200) nomad: http ok
        failed Some(500) 3072 bytes
        failed None nomad: Get "http://127.0.0.1:PORT/never": context deadline exceeded
        passed Some(201) GET /show HTTP/1.1|Accept: */*|Referer: http://127.0.0.1:PORT/away|Host: 127.0.0.1:PORT|
        failed None nomad: Get "http://127.0.0.1:PORT/file": redirect to "file:///etc/passwd" is not followed
        passed Some(304) 
        failed None nomad: Get "http://127.0.0.1:PORT/close": client error (SendRequest): connection closed before message completed
        failed None nomad: Get "https://127.0.0.1:PORT/ok": tls: first record does not look like a TLS handshake
        failed None nomad: Get "http://127.0.0.1:CLOSED/ok": dial tcp 127.0.0.1:CLOSED: connect: connection refused
        passed Some(201) POST /show HTTP/1.1|X-One: a|X-One: b|Host: other.example|Accept: */*|Content-Length: 4||body
        failed None nomad: Get "http://127.0.0.1:PORT/show": invalid header field "X-One"
        passed None nomad: tcp ok
        failed None dial tcp :CLOSED: connect: connection refused
        failed None no port"#]].assert_eq(&told);
}
