//! Event sinks: requests, refusals, what an update keeps, and who may write them.

use expect_test::expect;
use serde_json::Value;

use crate::acl::{check as check_as, guarded};
use crate::server::{Memory, answer, check, text};

#[tokio::test]
async fn an_event_sink_is_made_read_reset_and_deleted() {
    check(
        &Memory::new(),
        r#"PUT /v1/event-sink/hook {"Type": "webhook", "Address": "https://receiver.test/a?b=c", "Topics": {"Job": ["web"], "Node": []}, "Filter": "Type != NodeDrain", "Secret": "s3cret", "Headers": {"Authorization": "Bearer s3cret"}}
        GET /v1/event-sink/hook
        PUT /v1/event-sink/all {"ID": "all", "Type": "file", "Address": "audit.jsonl", "Namespace": "*", "Full": true, "BatchSize": 7, "Position": 1}
        GET /v1/event-sinks?prefix=a
        PUT /v1/event-sink/hook/reset {"Position": 1}
        POST /v1/event-sink/bus {"Type": "nats", "Address": "nats://bus.test:4222", "Subject": "songline.events"}
        GET /v1/event-sinks
        DELETE /v1/event-sink/hook
        GET /v1/event-sink/hook
        PUT /v1/event-sink/hook/reset {"Position": 1}
        DELETE /v1/event-sink/hook
        PUT /v1/event-sink/log {"Type": "kafka", "Address": "kafka+tls://a.test,b.test:9093", "Subject": "songline.events", "PartitionKey": "job", "Secret": "user:s3cret"}
        GET /v1/event-sink/log"#,
        expect![[r#"
            PUT /v1/event-sink/hook {"Type": "webhook", "Address": "https://receiver.test/a?b=c", "Topics": {"Jo
                200 @2 
            GET /v1/event-sink/hook
                200 @2 {"ID":"hook","Type":"webhook","Address":"https://receiver.test/a?b=c","Subject":"","PartitionKey":"","Namespace":"default","Topics":{"Job":["web"],"Node":[]},"Filter":"Type != NodeDrain","Full":false,"Secret":"redacted","Headers":{"Authorization":"redacted"},"BatchSize":100,"CreateIndex":2,"ModifyIndex":2,"Status":"pending","Position":2,"Lag":0,"Delivered":0,"Gaps":0,"LastError":"","LastErrorTime":null}
            PUT /v1/event-sink/all {"ID": "all", "Type": "file", "Address": "audit.jsonl", "Namespace": "*", "Fu
                200 @3 
            GET /v1/event-sinks?prefix=a
                200 @3 [{"ID":"all","Type":"file","Address":"audit.jsonl","Subject":"","PartitionKey":"","Namespace":"*","Topics":{},"Filter":"","Full":true,"Secret":"","Headers":{},"BatchSize":7,"CreateIndex":3,"ModifyIndex":3,"Status":"pending","Position":1,"Lag":2,"Delivered":0,"Gaps":0,"LastError":"","LastErrorTime":null}]
            PUT /v1/event-sink/hook/reset {"Position": 1}
                200 @4 
            POST /v1/event-sink/bus {"Type": "nats", "Address": "nats://bus.test:4222", "Subject": "songline.eve
                200 @5 
            GET /v1/event-sinks
                200 @5 [{"ID":"all","Type":"file","Address":"audit.jsonl","Subject":"","PartitionKey":"","Namespace":"*","Topics":{},"Filter":"","Full":true,"Secret":"","Headers":{},"BatchSize":7,"CreateIndex":3,"ModifyIndex":3,"Status":"pending","Position":1,"Lag":4,"Delivered":0,"Gaps":0,"LastError":"","LastErrorTime":null},{"ID":"bus","Type":"nats","Address":"nats://bus.test:4222","Subject":"songline.events","PartitionKey":"","Namespace":"default","Topics":{},"Filter":"","Full":false,"Secret":"","Headers":{},"BatchSize":100,"CreateIndex":5,"ModifyIndex":5,"Status":"pending","Position":5,"Lag":0,"Delivered":0,"Gaps":0,"LastError":"","LastErrorTime":null},{"ID":"hook","Type":"webhook","Address":"https://receiver.test/a?b=c","Subject":"","PartitionKey":"","Namespace":"default","Topics":{"Job":["web"],"Node":[]},"Filter":"Type != NodeDrain","Full":false,"Secret":"redacted","Headers":{"Authorization":"redacted"},"BatchSize":100,"CreateIndex":2,"ModifyIndex":2,"Status":"pending","Position":1,"Lag":4,"Delivered":0,"Gaps":0,"LastError":"","LastErrorTime":null}]
            DELETE /v1/event-sink/hook
                200 @6 
            GET /v1/event-sink/hook
                404 @6 event sink "hook" not found
            PUT /v1/event-sink/hook/reset {"Position": 1}
                404 event sink "hook" not found
            DELETE /v1/event-sink/hook
                404 event sink "hook" not found
            PUT /v1/event-sink/log {"Type": "kafka", "Address": "kafka+tls://a.test,b.test:9093", "Subject": "so
                200 @9 
            GET /v1/event-sink/log
                200 @9 {"ID":"log","Type":"kafka","Address":"kafka+tls://a.test,b.test:9093","Subject":"songline.events","PartitionKey":"job","Namespace":"default","Topics":{},"Filter":"","Full":false,"Secret":"redacted","Headers":{},"BatchSize":100,"CreateIndex":9,"ModifyIndex":9,"Status":"pending","Position":9,"Lag":0,"Delivered":0,"Gaps":0,"LastError":"","LastErrorTime":null}
        "#]],
    )
    .await;
}

#[tokio::test]
async fn invalid_event_sinks_are_refused_with_every_reason() {
    check(
        &Memory::new(),
        r#"PUT /v1/event-sink/a
        PUT /v1/event-sink/ {}
        PUT /v1/event-sink/a%20b {"ID": "c", "Type": "mail", "Address": "x"}
        PUT /v1/event-sink/a {"Type": "webhook", "Address": "ftp://x", "Topics": {"Jobs": []}}
        PUT /v1/event-sink/a {"Type": "webhook", "Address": "http://user:pass@x/", "Topics": {"Namespace": []}, "Subject": "s"}
        PUT /v1/event-sink/a {"Type": "webhook", "Address": "http://x", "Topics": {"Job": ["*", "web"]}, "BatchSize": 10001}
        PUT /v1/event-sink/a {"Type": "webhook", "Address": "http://x", "Filter": "Jobs == web"}
        PUT /v1/event-sink/a {"Type": "webhook", "Address": "http://x", "Headers": {"a b": "", "Host": "y", "X-Songline-Index": "1", "X-A": "1\n", "x-a": ""}}
        PUT /v1/event-sink/a {"Type": "webhook", "Address": "http://x", "Secret": "redacted", "Headers": {"A": "redacted"}}
        PUT /v1/event-sink/a {"Type": "file", "Address": "../x", "Secret": "s", "Headers": {"A": "b"}}
        PUT /v1/event-sink/a {"Type": "file", "Address": ".hidden"}
        PUT /v1/event-sink/a {"Type": "nats", "Address": "nats://x", "Subject": "a.*"}
        PUT /v1/event-sink/a {"Type": "nats", "Address": "nats://x", "Subject": "a", "PartitionKey": "job"}
        PUT /v1/event-sink/a {"Type": "kafka", "Address": "kafka://u:p@x", "Subject": "a/b", "PartitionKey": "node", "Secret": "token"}
        PUT /v1/event-sink/a {"Type": "kafka", "Address": "kafka://x,", "Headers": {"A": "b"}}
        PUT /v1/event-sink/a {"Type": "webhook", "Address": "http://x", "Position": 99}
        PUT /v1/event-sink/a {"Type": "file", "Address": "one"}
        PUT /v1/event-sink/b {"Type": "file", "Address": "one"}
        PUT /v1/event-sink/a/reset {}
        PUT /v1/event-sink/a/reset {"Position": 99}
        PUT /v1/event-sinks {}
        GET /v1/event-sink/"#,
        expect![[r#"
            PUT /v1/event-sink/a
                400 Request body is empty
            PUT /v1/event-sink/ {}
                400 Missing Event Sink Name
            PUT /v1/event-sink/a%20b {"ID": "c", "Type": "mail", "Address": "x"}
                400 invalid event sink "a b": 4 errors occurred:
            	* ID does not match request path
            	* invalid name "a b". Must match regex ^[a-zA-Z0-9-_]{1,128}$
            	* invalid Type "mail", must be webhook, file, nats or kafka
            	* invalid Address "x": must begin with http:// or https://
            PUT /v1/event-sink/a {"Type": "webhook", "Address": "ftp://x", "Topics": {"Jobs": []}}
                400 invalid event sink "a": 2 errors occurred:
            	* unknown topic "Jobs", must be * or one of Node, NodePool, Job, Deployment, Evaluation, Allocation, ScalingPolicy, ScalingEvent, Service, SchedulerConfiguration, ClusterMetadata, CSIVolume, CSIPlugin, Namespace, ACLPolicy, ACLToken, ACLRole, ACLAuthMethod, ACLBindingRule, AutopilotConfiguration, Variable, RootKey, PendingWork, Quota, EventSink
            	* invalid Address "ftp://x": must begin with http:// or https://
            PUT /v1/event-sink/a {"Type": "webhook", "Address": "http://user:pass@x/", "Topics": {"Namespace": [
                400 invalid event sink "a": 3 errors occurred:
            	* topic "Namespace" needs Full: Nomad has no such events
            	* invalid Address: it has a user or password, which belong into Headers or Secret
            	* Subject is for nats and kafka, not for webhook
            PUT /v1/event-sink/a {"Type": "webhook", "Address": "http://x", "Topics": {"Job": ["*", "web"]}, "Ba
                400 invalid event sink "a": 2 errors occurred:
            	* topic "Job" has an invalid key "*"
            	* BatchSize 10001 is more than 10000
            PUT /v1/event-sink/a {"Type": "webhook", "Address": "http://x", "Filter": "Jobs == web"}
                400 invalid event sink "a": 1 error occurred:
            	* failed to read filter expression: 1:1 (0): events have no field "Jobs"; they have Topic, Type, Key, Namespace, Index, FilterKeys, Payload
            PUT /v1/event-sink/a {"Type": "webhook", "Address": "http://x", "Headers": {"a b": "", "Host": "y", 
                400 invalid event sink "a": 5 errors occurred:
            	* header "Host" is set by deliveries
            	* invalid value of header "X-A"
            	* header "X-Songline-Index" is set by deliveries
            	* invalid header name "a b"
            	* a header is there twice
            PUT /v1/event-sink/a {"Type": "webhook", "Address": "http://x", "Secret": "redacted", "Headers": {"A
                400 invalid event sink "a": 2 errors occurred:
            	* Secret is the placeholder of a secret, which this sink or address does not have
            	* header "A" is the placeholder of a secret, which this sink or address does not have
            PUT /v1/event-sink/a {"Type": "file", "Address": "../x", "Secret": "s", "Headers": {"A": "b"}}
                400 invalid event sink "a": 3 errors occurred:
            	* invalid Address "../x": must be the name of a file, of letters, digits, -, _ and .
            	* Headers are for webhooks, not for file
            	* Secret has no use for file
            PUT /v1/event-sink/a {"Type": "file", "Address": ".hidden"}
                400 invalid event sink "a": 1 error occurred:
            	* invalid Address ".hidden": must be the name of a file, of letters, digits, -, _ and .
            PUT /v1/event-sink/a {"Type": "nats", "Address": "nats://x", "Subject": "a.*"}
                400 invalid event sink "a": 1 error occurred:
            	* invalid Subject "a.*": must be words with dots between them
            PUT /v1/event-sink/a {"Type": "nats", "Address": "nats://x", "Subject": "a", "PartitionKey": "job"}
                400 invalid event sink "a": 1 error occurred:
            	* PartitionKey is for kafka, not for nats
            PUT /v1/event-sink/a {"Type": "kafka", "Address": "kafka://u:p@x", "Subject": "a/b", "PartitionKey":
                400 invalid event sink "a": 4 errors occurred:
            	* invalid PartitionKey "node", must be namespace, job, object or empty
            	* invalid Address: it has a user or password, which belong into Secret
            	* Secret must be user:password for kafka
            	* invalid Subject "a/b": must be a topic of letters, digits, -, _ and .
            PUT /v1/event-sink/a {"Type": "kafka", "Address": "kafka://x,", "Headers": {"A": "b"}}
                400 invalid event sink "a": 3 errors occurred:
            	* invalid Address "kafka://x,": "" is not HOST or HOST:PORT
            	* Headers are for webhooks, not for kafka
            	* invalid Subject "": must be a topic of letters, digits, -, _ and .
            PUT /v1/event-sink/a {"Type": "webhook", "Address": "http://x", "Position": 99}
                400 position 99 is ahead of the newest entry, 2
            PUT /v1/event-sink/a {"Type": "file", "Address": "one"}
                200 @3 
            PUT /v1/event-sink/b {"Type": "file", "Address": "one"}
                400 file "one" belongs to event sink "a"
            PUT /v1/event-sink/a/reset {}
                400 Missing Position: the index after which the next event comes
            PUT /v1/event-sink/a/reset {"Position": 99}
                400 position 99 is ahead of the newest entry, 5
            PUT /v1/event-sinks {}
                405 Invalid method
            GET /v1/event-sink/
                400 Missing Event Sink Name
        "#]],
    )
    .await;
}

#[tokio::test]
async fn an_update_keeps_secrets_for_the_same_address_only() {
    let server = Memory::new();
    check(
        &server,
        r#"PUT /v1/event-sink/hook {"Type": "webhook", "Address": "http://x", "Secret": "s3cret", "Headers": {"A": "s3cret"}}
        PUT /v1/event-sink/hook {"Type": "webhook", "Address": "http://x", "Secret": "redacted", "Headers": {"A": "redacted", "B": "2"}, "Position": 1}
        GET /v1/event-sink/hook
        PUT /v1/event-sink/hook {"Type": "webhook", "Address": "http://y", "Secret": "redacted", "Headers": {"A": "redacted"}}"#,
        expect![[r#"
            PUT /v1/event-sink/hook {"Type": "webhook", "Address": "http://x", "Secret": "s3cret", "Headers": {"
                200 @2 
            PUT /v1/event-sink/hook {"Type": "webhook", "Address": "http://x", "Secret": "redacted", "Headers": 
                200 @3 
            GET /v1/event-sink/hook
                200 @3 {"ID":"hook","Type":"webhook","Address":"http://x","Subject":"","PartitionKey":"","Namespace":"default","Topics":{},"Filter":"","Full":false,"Secret":"redacted","Headers":{"A":"redacted","B":"redacted"},"BatchSize":100,"CreateIndex":2,"ModifyIndex":3,"Status":"pending","Position":2,"Lag":1,"Delivered":0,"Gaps":0,"LastError":"","LastErrorTime":null}
            PUT /v1/event-sink/hook {"Type": "webhook", "Address": "http://y", "Secret": "redacted", "Headers": 
                400 invalid event sink "hook": 2 errors occurred:
            	* Secret is the placeholder of a secret, which this sink or address does not have
            	* header "A" is the placeholder of a secret, which this sink or address does not have
        "#]],
    )
    .await;
    let view = songline_api::Reads::view(&*server);
    let sink = view.event_sink("hook").expect("is there");
    assert_eq!(
        (sink.secret.reveal(), sink.headers["A"].reveal(), sink.headers["B"].reveal()),
        ("s3cret", "s3cret", "2")
    );
}

/// A sink has no token of its own: its writer must be allowed to read the events.
#[tokio::test]
async fn the_writer_of_an_event_sink_needs_the_rights_of_a_subscriber() {
    check_as(
        &guarded().await,
        r#"all PUT /v1/acl/policy/op {"Name": "op", "Rules": "operator { policy = \"write\" }"}
        all PUT /v1/acl/policy/opjobs {"Name": "opjobs", "Rules": "operator { policy = \"write\" } namespace \"default\" { policy = \"read\" }"}
        all PUT /v1/acl/policy/reader {"Name": "reader", "Rules": "operator { policy = \"read\" } namespace \"default\" { policy = \"read\" }"}
        all PUT /v1/acl/token {"Name": "op", "Type": "client", "Policies": ["op"]}
        all PUT /v1/acl/token {"Name": "opjobs", "Type": "client", "Policies": ["opjobs"]}
        all PUT /v1/acl/token {"Name": "reader", "Type": "client", "Policies": ["reader"]}
        #3 PUT /v1/event-sink/a {"Type": "webhook", "Address": "http://x", "Topics": {"Job": []}}
        #5 PUT /v1/event-sink/a {"Type": "webhook", "Address": "http://x", "Topics": {"Job": []}}
        #5 PUT /v1/event-sink/b {"Type": "webhook", "Address": "http://x", "Topics": {"Job": []}, "Namespace": "*"}
        #5 PUT /v1/event-sink/c {"Type": "webhook", "Address": "http://x", "Topics": {"Node": []}}
        #5 PUT /v1/event-sink/d {"Type": "webhook", "Address": "http://x"}
        all PUT /v1/event-sink/d {"Type": "webhook", "Address": "http://x", "Namespace": "*"}
        #7 GET /v1/event-sinks
        #7 PUT /v1/event-sink/a {"Type": "webhook", "Address": "http://x", "Topics": {"Job": []}}
        #7 PUT /v1/event-sink/a/reset {"Position": 1}
        #7 DELETE /v1/event-sink/a
        - GET /v1/event-sink/a
        #3 DELETE /v1/event-sink/a"#,
        expect![[r##"
            all PUT /v1/acl/policy/op {"Name": "op", "Rules": "operator { policy = \"write\" }"}
                200 
            all PUT /v1/acl/policy/opjobs {"Name": "opjobs", "Rules": "operator { policy = \"write\" } namespace \"default\" { policy = \"read\" }"}
                200 
            all PUT /v1/acl/policy/reader {"Name": "reader", "Rules": "operator { policy = \"read\" } namespace \"default\" { policy = \"read\" }"}
                200 
            all PUT /v1/acl/token {"Name": "op", "Type": "client", "Policies": ["op"]}
                200 {"ExpirationTTL":"","AccessorID":"#2","SecretID":"#3","Name":"op","Type":"client","Policies":["op"],"Roles":null,"Global":false,"Hash":"KEGQ+DPJ2uMUkeZs/Ojod6yFiSZk+Yr7tn5VA+rRn8U=","CreateTime":"2023-11-14T22:13:29Z","ExpirationTime":null,"CreateIndex":6,"ModifyIndex":6}
            all PUT /v1/acl/token {"Name": "opjobs", "Type": "client", "Policies": ["opjobs"]}
                200 {"ExpirationTTL":"","AccessorID":"#4","SecretID":"#5","Name":"opjobs","Type":"client","Policies":["opjobs"],"Roles":null,"Global":false,"Hash":"c16CIKhmk0BNooJYuXP11toZ48NK4+ZlstOd2Ie4P3s=","CreateTime":"2023-11-14T22:13:32Z","ExpirationTime":null,"CreateIndex":7,"ModifyIndex":7}
            all PUT /v1/acl/token {"Name": "reader", "Type": "client", "Policies": ["reader"]}
                200 {"ExpirationTTL":"","AccessorID":"#6","SecretID":"#7","Name":"reader","Type":"client","Policies":["reader"],"Roles":null,"Global":false,"Hash":"XY7gw2HI6HqLIKjWLn0KweZ+0p4fNCq22XIY0jDSThg=","CreateTime":"2023-11-14T22:13:35Z","ExpirationTime":null,"CreateIndex":8,"ModifyIndex":8}
            #3 PUT /v1/event-sink/a {"Type": "webhook", "Address": "http://x", "Topics": {"Job": []}}
                403 Permission denied
            #5 PUT /v1/event-sink/a {"Type": "webhook", "Address": "http://x", "Topics": {"Job": []}}
                200 
            #5 PUT /v1/event-sink/b {"Type": "webhook", "Address": "http://x", "Topics": {"Job": []}, "Namespace": "*"}
                403 Permission denied
            #5 PUT /v1/event-sink/c {"Type": "webhook", "Address": "http://x", "Topics": {"Node": []}}
                403 Permission denied
            #5 PUT /v1/event-sink/d {"Type": "webhook", "Address": "http://x"}
                403 Permission denied
            all PUT /v1/event-sink/d {"Type": "webhook", "Address": "http://x", "Namespace": "*"}
                200 
            #7 GET /v1/event-sinks
                200 [{"ID":"a","Type":"webhook","Address":"http://x","Subject":"","PartitionKey":"","Namespace":"default","Topics":{"Job":[]},"Filter":"","Full":false,"Secret":"","Headers":{},"BatchSize":100,"CreateIndex":9,"ModifyIndex":9,"Status":"pending","Position":9,"Lag":1,"Delivered":0,"Gaps":0,"LastError":"","LastErrorTime":null},{"ID":"d","Type":"webhook","Address":"http://x","Subject":"","PartitionKey":"","Namespace":"*","Topics":{},"Filter":"","Full":false,"Secret":"","Headers":{},"BatchSize":100,"CreateIndex":10,"ModifyIndex":10,"Status":"pending","Position":10,"Lag":0,"Delivered":0,"Gaps":0,"LastError":"","LastErrorTime":null}]
            #7 PUT /v1/event-sink/a {"Type": "webhook", "Address": "http://x", "Topics": {"Job": []}}
                403 Permission denied
            #7 PUT /v1/event-sink/a/reset {"Position": 1}
                403 Permission denied
            #7 DELETE /v1/event-sink/a
                403 Permission denied
            - GET /v1/event-sink/a
                403 Permission denied
            #3 DELETE /v1/event-sink/a
                200 
        "##]],
    )
    .await;
}

#[tokio::test]
async fn the_secret_of_an_event_sink_is_shown_to_nobody() {
    let server = Memory::new();
    let line = r#"PUT /v1/event-sink/hook {"Type": "webhook", "Address": "http://x", "Secret": "s3cret", "Headers": {"A": "s3cret"}}"#;
    assert_eq!(answer(&server, line).await.status(), 200);
    for path in ["/v1/event-sinks", "/v1/event-sink/hook"] {
        let told = text(answer(&server, &format!("GET {path}")).await).await;
        let shown: Value = serde_json::from_str(&told).expect("JSON");
        assert!(!told.contains("s3cret") && shown.to_string().contains("redacted"), "{told}");
    }
}
