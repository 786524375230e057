//! Stories of plugins: `plugins=` and `controllers=` are reports of a node, `csi=` is the plugin that a task runs.

use expect_test::expect;

use crate::story::check;

#[test]
fn plugin_exists_from_its_first_healthy_instance_to_its_last_instance() {
    check(
        "node register n1 plugins=p
         show plugin p
         node register n1 plugins=p:healthy
         show plugin p
         node register n1 plugins=p
         show plugin p
         node register n2 plugins=p:healthy controllers=p:healthy
         show plugin p
         node register n1
         show plugin p
         node register n2 plugins=p:healthy
         show plugin p
         node register n2
         show plugin p
         show tables",
        expect![[r#"
            node register n1 plugins=p: ok [+node:n1]
               plugin p: none
            node register n1 plugins=p:healthy: ok [~node:n1 +plugin:p]
               plugin p: "org.x" create=3 modify=3 controllers=0/0 on [] of [] nodes=1/0 on [n1] of []
            node register n1 plugins=p: ok [~node:n1 ~plugin:p]
               plugin p: "org.x" create=3 modify=4 controllers=0/0 on [] of [] nodes=0/0 on [n1] of []
            node register n2 plugins=p:healthy controllers=p:healthy: ok [+node:n2 ~plugin:p]
               plugin p: "org.x" create=3 modify=5 controllers=1/0 on [n2] of [] nodes=1/0 on [n1,n2] of [] controller-required
            node register n1: ok [~node:n1 ~plugin:p]
               plugin p: "org.x" create=3 modify=6 controllers=1/0 on [n2] of [] nodes=1/0 on [n2] of [] controller-required
            node register n2 plugins=p:healthy: ok [~node:n2 ~plugin:p]
               plugin p: "org.x" create=3 modify=7 controllers=0/0 on [] of [] nodes=1/0 on [n2] of [] controller-required
            node register n2: ok [~node:n2 -plugin:p]
               plugin p: none
               changed: nodes=8 csi_plugins=8
        "#]],
    );
}

#[test]
fn deregistered_node_takes_its_plugin_instances_along() {
    check(
        "node register n1 plugins=p:healthy,q:healthy
         node register n2 plugins=p:healthy controllers=q:healthy
         node deregister n1
         show plugin p
         show plugin q
         node deregister n2
         show plugin p
         show plugin q",
        expect![[r#"
            node register n1 plugins=p:healthy,q:healthy: ok [+node:n1 +plugin:p +plugin:q]
            node register n2 plugins=p:healthy controllers=q:healthy: ok [+node:n2 ~plugin:q ~plugin:p]
            node deregister n1: ok [-node:n1 ~plugin:p ~plugin:q]
               plugin p: "org.x" create=2 modify=4 controllers=0/0 on [] of [] nodes=1/0 on [n2] of []
               plugin q: "org.x" create=2 modify=4 controllers=1/0 on [n2] of [] nodes=0/0 on [] of [] controller-required
            node deregister n2: ok [-node:n2 -plugin:p -plugin:q]
               plugin p: none
               plugin q: none
        "#]],
    );
}

#[test]
fn a_job_makes_its_plugin_known_before_any_instance_runs() {
    check(
        "job register web groups=g:0 csi=p:node
         show plugin p
         job register web groups=g:3 csi=p:monolith
         show plugin p
         job register ctl groups=g:2 csi=p:controller
         show plugin p
         job register web groups=g:1,h:2 csi=p:controller
         show plugin p
         job purge web
         show plugin p
         job purge ctl
         show plugin p",
        expect![[r#"
            job register web groups=g:0 csi=p:node: ok [+summary:web +plugin:p +job:web +version:web.0]
               plugin p: "" create=2 modify=2 controllers=0/0 on [] of [] nodes=0/0 on [] of [web:0]
            job register web groups=g:3 csi=p:monolith: ok [~plugin:p ~job:web +version:web.1]
               plugin p: "" create=2 modify=3 controllers=0/3 on [] of [web:3] nodes=0/3 on [] of [web:3]
            job register ctl groups=g:2 csi=p:controller: ok [+summary:ctl ~plugin:p +job:ctl +version:ctl.0]
               plugin p: "" create=2 modify=4 controllers=0/5 on [] of [ctl:2,web:3] nodes=0/3 on [] of [web:3]
            job register web groups=g:1,h:2 csi=p:controller: ok [~summary:web ~plugin:p ~job:web +version:web.2]
               plugin p: "" create=2 modify=5 controllers=0/5 on [] of [ctl:2,web:3] nodes=0/0 on [] of []
            job purge web: ok [-job:web -version:web.2 -version:web.1 -version:web.0 ~plugin:p -summary:web]
               plugin p: "" create=2 modify=6 controllers=0/2 on [] of [ctl:2] nodes=0/0 on [] of []
            job purge ctl: ok [-job:ctl -version:ctl.0 -plugin:p -summary:ctl]
               plugin p: none
        "#]],
    );
}

#[test]
fn a_job_that_runs_another_plugin_leaves_the_first_one() {
    check(
        "job register web groups=g:0 csi=p:node
         job register web groups=g:1 csi=q:node
         show plugin p
         show plugin q
         job register web groups=g:1
         show plugin q",
        expect![[r#"
            job register web groups=g:0 csi=p:node: ok [+summary:web +plugin:p +job:web +version:web.0]
            job register web groups=g:1 csi=q:node: ok [-plugin:p +plugin:q ~job:web +version:web.1]
               plugin p: none
               plugin q: "" create=3 modify=3 controllers=0/0 on [] of [] nodes=0/1 on [] of [web:1]
            job register web groups=g:1: ok [-plugin:q ~job:web +version:web.2]
               plugin q: none
        "#]],
    );
}

#[test]
fn stopped_job_counts_for_its_plugin_until_it_is_purged() {
    check(
        "job register web groups=g:2 csi=p:node
         job stop web
         show plugin p
         job purge web
         show plugin p",
        expect![[r#"
            job register web groups=g:2 csi=p:node: ok [+summary:web +plugin:p +job:web +version:web.0]
            job stop web: ok [~job:web +version:web.1]
               plugin p: "" create=2 modify=2 controllers=0/0 on [] of [] nodes=0/2 on [] of [web:2]
            job purge web: ok [-job:web -version:web.1 -version:web.0 -plugin:p -summary:web]
               plugin p: none
        "#]],
    );
}

#[test]
fn alloc_stopped_by_the_servers_removes_its_plugin_instance() {
    check(
        "job register web groups=g:1 csi=p:node
         plan job=web create=2 csi=p:node groups=g:1 place=a1@n1:g
         node register n1 plugins=p:healthy:a1
         show plugin p
         client a1@n1 failed
         show plugin p
         plan stop=a1
         show plugin p
         job purge web
         show plugin p",
        expect![[r#"
            job register web groups=g:1 csi=p:node: ok [+summary:web +plugin:p +job:web +version:web.0]
            plan job=web create=2 csi=p:node groups=g:1 place=a1@n1:g: ok [~summary:web +alloc:a1 ~job:web]
            node register n1 plugins=p:healthy:a1: ok [+node:n1 ~plugin:p]
               plugin p: "org.x" create=2 modify=4 controllers=0/0 on [] of [] nodes=1/1 on [n1] of [web:1]
            client a1@n1 failed: ok [~summary:web ~alloc:a1 ~job:web ~node:n1]
               plugin p: "org.x" create=2 modify=4 controllers=0/0 on [] of [] nodes=1/1 on [n1] of [web:1]
            plan stop=a1: ok [~alloc:a1 ~plugin:p]
               plugin p: "org.x" create=2 modify=6 controllers=0/0 on [] of [] nodes=0/1 on [] of [web:1]
            job purge web: ok [-job:web -version:web.0 -plugin:p -summary:web]
               plugin p: none
        "#]],
    );
}

#[test]
fn purged_job_removes_the_plugin_instances_of_its_allocs() {
    check(
        "job register web groups=g:1 csi=p:node
         plan job=web create=2 csi=p:node groups=g:1 place=a1@n1:g
         node register n1 plugins=p:healthy:a1
         job purge web
         show plugin p",
        expect![[r#"
            job register web groups=g:1 csi=p:node: ok [+summary:web +plugin:p +job:web +version:web.0]
            plan job=web create=2 csi=p:node groups=g:1 place=a1@n1:g: ok [~summary:web +alloc:a1 ~job:web]
            node register n1 plugins=p:healthy:a1: ok [+node:n1 ~plugin:p]
            job purge web: ok [-job:web -version:web.0 -plugin:p -summary:web]
               plugin p: none
        "#]],
    );
}

#[test]
fn system_job_counts_its_queued_and_live_allocs_as_plugin_instances() {
    check(
        "job register sys type=system groups=g:1 csi=p:node
         show plugin p
         plan job=sys type=system create=2 csi=p:node groups=g:1 place=a1@n1:g,a2@n2:g
         show plugin p
         client a1@n1 running
         show plugin p
         client a1@n1 complete
         show plugin p
         eval e1 complete job=sys queued=g:2
         show plugin p",
        expect![[r#"
            job register sys type=system groups=g:1 csi=p:node: ok [+summary:sys +plugin:p +job:sys +version:sys.0]
               plugin p: "" create=2 modify=2 controllers=0/0 on [] of [] nodes=0/0 on [] of [sys:0]
            plan job=sys type=system create=2 csi=p:node groups=g:1 place=a1@n1:g,a2@n2:g: ok [+alloc:a1 ~summary:sys +alloc:a2 ~plugin:p]
               plugin p: "" create=2 modify=3 controllers=0/0 on [] of [] nodes=0/2 on [] of [sys:2]
            client a1@n1 running: ok [~summary:sys ~alloc:a1]
               plugin p: "" create=2 modify=3 controllers=0/0 on [] of [] nodes=0/2 on [] of [sys:2]
            client a1@n1 complete: ok [~summary:sys ~alloc:a1 ~plugin:p]
               plugin p: "" create=2 modify=5 controllers=0/0 on [] of [] nodes=0/1 on [] of [sys:1]
            eval e1 complete job=sys queued=g:2: ok [~summary:sys ~plugin:p +eval:e1]
               plugin p: "" create=2 modify=6 controllers=0/0 on [] of [] nodes=0/3 on [] of [sys:3]
        "#]],
    );
}

#[test]
fn only_an_unused_plugin_is_deleted_and_an_unknown_one_is_no_error() {
    check(
        "plugin delete p
         node register n1 plugins=p:healthy
         plugin delete p
         job register web groups=g:0 csi=q:node
         plugin delete q
         show plugin q
         show tables",
        expect![[r#"
            plugin delete p: ok
            node register n1 plugins=p:healthy: ok [+node:n1 +plugin:p]
            plugin delete p: refused: plugin in use
            job register web groups=g:0 csi=q:node: ok [+summary:web +plugin:q +job:web +version:web.0]
            plugin delete q: ok [-plugin:q]
               plugin q: none
               changed: nodes=3 jobs=5 job_summary=5 job_version=5 csi_plugins=6
        "#]],
    );
}
