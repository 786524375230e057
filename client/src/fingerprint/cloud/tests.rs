//! Metadata services of clouds, as small servers.

use std::io::{Read, Write};
use std::net::TcpListener;

use expect_test::{Expect, expect};

use super::*;

/// Answers requests by method and path; the answer may need words in the request.
fn serve(answers: &'static [(&str, &str, &str)]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("binds");
    let address = listener.local_addr().expect("bound");
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            let Ok(mut connection) = connection else { return };
            let (mut request, mut byte) = (String::new(), [0]);
            while !request.ends_with("\r\n\r\n") && connection.read(&mut byte).is_ok_and(|n| n > 0) {
                request.push(char::from(byte[0]));
            }
            let asked = request.split(" HTTP").next().unwrap_or_default();
            let found =
                answers.iter().find(|(line, needs, _)| *line == asked && request.to_lowercase().contains(needs));
            let (status, body) = found.map_or(("404 Not Found", ""), |(_, _, body)| ("200 OK", *body));
            let length = body.len();
            let head = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}");
            let _ = connection.write_all(head.as_bytes());
        }
    });
    format!("http://{address}")
}

async fn check(cloud: Cloud, path: &str, answers: &'static [(&str, &str, &str)], expected: Expect) {
    let shown = match cloud.look(Some(format!("{}{path}", serve(answers)))).await {
        None => "not in the cloud\n".to_owned(),
        Some(Found { attributes, link }) => {
            let lines = attributes.iter().chain(link.as_ref().map(|(key, value)| (key, value)));
            lines.map(|(key, value)| format!("{key} = {value}\n")).collect()
        }
    };
    expected.assert_eq(&shown);
}

#[tokio::test]
async fn aws_is_asked_with_a_token() {
    let answers = &[
        ("PUT /latest/api/token", "ttl-seconds: 300", "token"),
        ("GET /latest/meta-data/ami-id", "metadata-token: token", "ami-1"),
        ("GET /latest/meta-data/instance-id", "metadata-token: token", "i-1"),
        ("GET /latest/meta-data/instance-type", "metadata-token: token", "m5.large"),
        ("GET /latest/meta-data/placement/availability-zone", "metadata-token: token", "eu-west-1a"),
        ("GET /latest/meta-data/local-ipv4", "metadata-token: token", "10.0.0.5\n"),
    ];
    check(
        Cloud::Aws,
        "/latest/meta-data/",
        answers,
        expect![[r#"
        platform.aws.instance-type = m5.large
        platform.aws.placement.availability-zone = eu-west-1a
        unique.platform.aws.ami-id = ami-1
        unique.platform.aws.instance-id = i-1
        unique.platform.aws.local-ipv4 = 10.0.0.5
        aws.ec2 = eu-west-1a.i-1
    "#]],
    )
    .await;
}

#[tokio::test]
async fn azure_tells_its_machine_as_one_document() {
    let answers = &[
        (
            "GET /metadata/instance/compute?api-version=2019-06-04&format=json",
            "metadata: true",
            r#"{"azEnvironment": "AzurePublicCloud", "location": "westeurope", "name": "vm", "vmId": "42", "vmSize": "B1s", "tags": "a:1;b:2"}"#,
        ),
        (
            "GET /metadata/instance/network/interface/0?api-version=2019-06-04&format=json",
            "metadata: true",
            r#"{"ipv4": {"ipAddress": [{"privateIpAddress": "10.0.0.4", "publicIpAddress": ""}]}, "macAddress": "00"}"#,
        ),
    ];
    check(
        Cloud::Azure,
        "/metadata/instance",
        answers,
        expect![[r#"
        platform.azure.location = westeurope
        platform.azure.tag.a = 1
        platform.azure.tag.b = 2
        platform.azure.vm-size = B1s
        unique.platform.azure.id = 42
        unique.platform.azure.local-ipv4 = 10.0.0.4
        unique.platform.azure.mac = 00
        unique.platform.azure.name = vm
        azure = 42
    "#]],
    )
    .await;
}

#[tokio::test]
async fn google_and_digitalocean_tell_single_values() {
    let answers = &[
        ("GET /v1/instance/machine-type", "metadata-flavor: google", "projects/1/machineTypes/n1"),
        ("GET /v1/instance/zone", "metadata-flavor: google", "projects/1/zones/eu-b"),
        ("GET /v1/instance/id", "metadata-flavor: google", "7"),
        ("GET /v1/instance/tags", "metadata-flavor: google", r#"["web"]"#),
    ];
    check(
        Cloud::Gce,
        "/v1/instance/",
        answers,
        expect![[r#"
        platform.gce.machine-type = n1
        platform.gce.tag.web = true
        platform.gce.zone = eu-b
        unique.platform.gce.id = 7
        gce = 7
    "#]],
    )
    .await;
    let answers = &[("GET /metadata/v1/region", "", "ams3"), ("GET /metadata/v1/id", "", "9")];
    check(
        Cloud::DigitalOcean,
        "/metadata/v1",
        answers,
        expect![[r#"
        platform.digitalocean.region = ams3
        unique.platform.digitalocean.id = 9
        digitalocean = 9
    "#]],
    )
    .await;
}

#[tokio::test]
async fn machine_outside_of_a_cloud_has_no_attributes_of_it() {
    for cloud in Cloud::ALL {
        check(
            cloud,
            "",
            &[],
            expect![[r#"
            not in the cloud
        "#]],
        )
        .await;
    }
}
