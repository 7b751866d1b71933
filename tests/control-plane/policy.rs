//! `packaging/kubernetes`, as it stands there: who may do what, and which requests the API server refuses.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use trident_lab::control_plane::{ControlPlane, Kubectl};
use trident_lab::kube::{ApiServer, fresh_node};
use trident_lab::lab::{COMMIT_STATUS, REQUEST, Request, SOON, STATUS};
use trident_lab::tables;
use trident_lab::tls::Pki;
use uuid::Uuid;

const NAMESPACE: &str = "trident-acl-agent";
const ORCHESTRATOR: &str = "system:serviceaccount:trident-acl-agent:orchestrator";

/// Does what `docs/kubernetes.md` says, and waits until the policies are in force.
pub(crate) async fn apply(plane: &ControlPlane) -> Result<()> {
    let page = fs::read_to_string(root().join("docs/kubernetes.md"))?;
    let commands: Vec<_> = page.lines().filter_map(|line| line.strip_prefix("kubectl ")).collect();
    for manifest in fs::read_dir(root().join("packaging/kubernetes"))? {
        let path = manifest?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let applied = |command: &&str| command.starts_with("apply") && command.ends_with(&name);
        ensure!(commands.iter().any(applied), "nobody applies {name}");
    }
    for command in commands {
        let words: Vec<_> = command.split(' ').collect();
        plane.admin().expect(&words)?;
    }
    in_force(plane).await
}

/// Each time with another value: what stands there already is no change, and allowed.
async fn in_force(plane: &ControlPlane) -> Result<()> {
    let begun = Instant::now();
    for attempt in 0_u32.. {
        let odd = format!("{REQUEST}=odd-{attempt}");
        let said = plane.admin().run(&["annotate", "node", "node-1", "--overwrite", &odd])?;
        if said.stderr.contains("denied request") {
            break;
        }
        ensure!(begun.elapsed() < SOON, "the policies are not in force: {}", said.stderr);
        sleep(Duration::from_millis(200)).await;
    }
    Ok(())
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A token of a ServiceAccount of ours.
pub(crate) fn token(plane: &ControlPlane, account: &str, node: Option<&str>) -> Result<String> {
    let bound = ["--bound-object-kind=Node", "--bound-object-name"];
    let create = ["create", "token", account, "-n", NAMESPACE];
    let arguments = match node {
        Some(node) => [&create[..], &bound, &[node]].concat(),
        None => create.to_vec(),
    };
    plane.admin().expect(&arguments)
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_do_what() -> Result<()> {
    let plane = ControlPlane::start(&Pki::new()).await?;
    for node in ["node-1", "node-2"] {
        plane.add_node(node)?;
    }
    before_the_policies(&plane)?;
    apply(&plane).await?;
    permissions(&plane)?;
    requests(&plane)?;
    writers(&plane)?;
    registrations(&plane)
}

/// What kubelet's identity alone holds.
fn before_the_policies(plane: &ControlPlane) -> Result<()> {
    let kubelet = plane.kubelet("node-1")?;
    kubelet.expect(&["annotate", "node", "node-1", &format!("{STATUS}=mine")])?;
    let other = kubelet.refused(&["annotate", "node", "node-2", &format!("{STATUS}=not mine")])?;
    ensure!(other.contains("only its own Node object"), "{other}");
    // Reading is refused above; writing is too.
    let patch = json!({"metadata": {"annotations": {STATUS: "not mine"}}});
    let other = kubelet.patch("node-2", &patch, &[])?.context("another Node was changed")?;
    ensure!(other.contains("node-1") && other.contains("orbidden"), "{other}");
    plane.annotate("node-1", STATUS, None)
}

/// `kubectl auth can-i`, as the API server answers it.
fn permissions(plane: &ControlPlane) -> Result<()> {
    let agent = "system:serviceaccount:trident-acl-agent:trident-acl-agent";
    for (who, verb, what, allowed) in [
        (ORCHESTRATOR, "get", "nodes", true),
        (ORCHESTRATOR, "watch", "nodes", true),
        (ORCHESTRATOR, "patch", "nodes", true),
        (ORCHESTRATOR, "update", "nodes/update-request", true),
        (ORCHESTRATOR, "delete", "nodes", false),
        (ORCHESTRATOR, "patch", "nodes/status", false),
        (ORCHESTRATOR, "get", "secrets", false),
        (agent, "get", "nodes", true),
        (agent, "list", "nodes", true),
        (agent, "watch", "nodes", true),
        (agent, "patch", "nodes", true),
        (agent, "update", "nodes", false),
        (agent, "create", "nodes", false),
        (agent, "delete", "nodes", false),
        (agent, "patch", "nodes/status", false),
        (agent, "update", "nodes/update-request", false),
        (agent, "get", "pods", false),
        (agent, "get", "secrets", false),
    ] {
        let (what, part) = what.split_once('/').unwrap_or((what, ""));
        let answer = plane.admin().run(&[
            "auth",
            "can-i",
            verb,
            what,
            &format!("--subresource={part}"),
            &format!("--as={who}"),
        ])?;
        let can = answer.stdout.trim() == "yes";
        ensure!(can == allowed, "{who} {verb} {what}/{part}: {answer:?}");
    }
    Ok(())
}

/// Each request of the table, as an orchestrator.
fn requests(plane: &ControlPlane) -> Result<()> {
    let orchestrator = plane.bearer("orchestrator", &token(plane, "orchestrator", None)?)?;
    let mut wrong = Vec::new();
    for row in tables::requests()? {
        let patch = json!({"metadata": {"annotations": {REQUEST: row.text}}});
        let refusal = orchestrator.patch("node-1", &patch, &[])?;
        let in_order = refusal.as_deref().is_none_or(|said| said.contains("denied request: "));
        if refusal.is_none() != row.policy || !in_order {
            wrong.push(format!("{}: {refusal:?}", row.name));
        }
        plane.annotate("node-1", REQUEST, None)?;
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

/// Its name, who patches which Node with what and how, and the refusal.
type Case<'a> = (&'a str, &'a Kubectl, &'a str, &'a Value, &'a [&'a str], Option<&'a str>);

fn writers(plane: &ControlPlane) -> Result<()> {
    let admin = plane.admin().clone();
    let kubelet = plane.kubelet("node-1")?;
    let orchestrator = plane.bearer("orchestrator", &token(plane, "orchestrator", None)?)?;
    let agent = plane.bearer("agent", &token(plane, NAMESPACE, Some("node-1"))?)?;
    let unbound = plane.bearer("unbound", &token(plane, NAMESPACE, None)?)?;
    let somebody = stranger(plane)?;
    let annotation = |key: &str, value: Value| json!({"metadata": {"annotations": {key: value}}});
    let request = annotation(REQUEST, Request::rollback(Uuid::new_v4()).text().into());
    let (status, commit) = (annotation(STATUS, "x".into()), annotation(COMMIT_STATUS, "x".into()));
    let other = annotation("example.com/other", "x".into());
    let by_status: &[&str] = &["--subresource=status"];
    let label = json!({"metadata": {"labels": {"example.com/x": "y"}}});
    let unschedulable = json!({"spec": {"unschedulable": true}});
    // Both policies refuse it, in no order.
    let either = "denied request";
    // Each from a Node without a request and without a status.
    let cases: &[Case<'_>] = &[
        ("an orchestrator asks", &orchestrator, "node-1", &request, &[], None),
        ("an administrator asks", &admin, "node-1", &request, &[], None),
        ("a kubelet asks", &kubelet, "node-1", &request, &[], Some("for orchestrators")),
        ("somebody asks in the status", &somebody, "node-1", &request, by_status, Some("for orch")),
        ("the agent asks", &agent, "node-1", &request, &[], Some(either)),
        ("somebody asks", &somebody, "node-1", &request, &[], Some("for orchestrators")),
        ("a kubelet answers", &kubelet, "node-1", &status, &[], None),
        ("a kubelet answers of the commit", &kubelet, "node-1", &commit, &[], None),
        ("somebody answers in the status", &somebody, "node-1", &status, by_status, Some("itself")),
        ("the agent answers", &agent, "node-1", &status, &[], None),
        ("the agent answers of the commit", &agent, "node-1", &commit, &[], None),
        ("the agent of another", &agent, "node-2", &status, &[], Some(either)),
        ("an agent of no Node", &unbound, "node-1", &status, &[], Some(either)),
        ("an orchestrator answers", &orchestrator, "node-1", &status, &[], Some("node itself")),
        ("an administrator answers", &admin, "node-1", &commit, &[], Some("node itself")),
        ("somebody answers", &somebody, "node-1", &status, &[], Some("for the node itself")),
        ("the agent annotates", &agent, "node-1", &other, &[], Some("nothing else")),
        ("the agent labels", &agent, "node-1", &label, &[], Some("nothing else")),
        ("the agent cordons", &agent, "node-1", &unschedulable, &[], Some("nothing else")),
        ("the agent of another labels", &agent, "node-2", &label, &[], Some("not bound to")),
        ("somebody annotates", &somebody, "node-1", &other, &[], None),
        ("somebody cordons", &somebody, "node-1", &unschedulable, &[], None),
        ("a kubelet annotates", &kubelet, "node-1", &other, &[], None),
    ];
    let mut wrong = Vec::new();
    for (name, who, node, patch, further, refusal) in cases {
        let said = who.patch(node, patch, further)?;
        let as_expected = match (&said, refusal) {
            (None, None) => true,
            (Some(said), Some(refusal)) => said.contains(refusal),
            _ => false,
        };
        if !as_expected {
            wrong.push(format!("{name}: {said:?}"));
        }
        clean(plane, &kubelet)?;
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    removals(plane, &orchestrator, &kubelet, &somebody)
}

/// Taking away is writing, too; and what stands there already is in nobody's way.
fn removals(
    plane: &ControlPlane,
    orchestrator: &Kubectl,
    kubelet: &Kubectl,
    somebody: &Kubectl,
) -> Result<()> {
    plane.annotate("node-1", REQUEST, Some(&Request::rollback(Uuid::new_v4()).text()))?;
    kubelet.expect(&["annotate", "node", "node-1", &format!("{STATUS}=x")])?;
    somebody.expect(&["annotate", "node", "node-1", "example.com/beside=x"])?;
    let (request, status) = (format!("{REQUEST}-"), format!("{STATUS}-"));
    let said = somebody.refused(&["annotate", "node", "node-1", &request])?;
    ensure!(said.contains("for orchestrators"), "{said}");
    let said = orchestrator.refused(&["annotate", "node", "node-1", &status])?;
    ensure!(said.contains("for the node itself"), "{said}");
    orchestrator.expect(&["annotate", "node", "node-1", &request])?;
    kubelet.expect(&["annotate", "node", "node-1", &status])?;
    Ok(())
}

/// A Node that is created with an annotation is held to the same.
fn registrations(plane: &ControlPlane) -> Result<()> {
    let (admin, kubelet) = (plane.admin(), plane.kubelet("node-9")?);
    let request = Request::rollback(Uuid::new_v4()).text();
    for (name, who, key, value, refusal) in [
        ("a kubelet asks", &kubelet, REQUEST, request.as_str(), Some("for orchestrators")),
        ("a kubelet answers", &kubelet, STATUS, "x", None),
        ("an administrator asks", admin, REQUEST, &request, None),
        ("an administrator asks for nothing", admin, REQUEST, "{}", Some("`schemaVersion` must")),
        ("an administrator answers", admin, COMMIT_STATUS, "x", Some("for the node itself")),
    ] {
        let mut node = fresh_node("node-9");
        node["metadata"]["annotations"] = json!({key: value});
        let said = who.run_with(&["create", "-f", "-"], &node.to_string())?;
        let as_expected = match refusal {
            None => said.code == Some(0),
            Some(refusal) => said.code != Some(0) && said.stderr.contains(refusal),
        };
        ensure!(as_expected, "{name}: {said:?}");
        admin.expect(&["delete", "node", "node-9", "--ignore-not-found"])?;
    }
    Ok(())
}

/// Somebody who may patch Nodes, like many a controller, and is no orchestrator.
fn stranger(plane: &ControlPlane) -> Result<Kubectl> {
    let (role, rules) = ("patches-nodes", ["--verb=get,patch", "--resource=nodes,nodes/status"]);
    let create = ["create", "clusterrole", role];
    plane.admin().expect(&[&create[..], &rules].concat())?;
    let bind = ["create", "clusterrolebinding", role, "--clusterrole=patches-nodes"];
    plane.admin().expect(&[&bind[..], &["--user=somebody"]].concat())?;
    plane.user("somebody", "people")
}

fn clean(plane: &ControlPlane, kubelet: &Kubectl) -> Result<()> {
    plane.annotate("node-1", REQUEST, None)?;
    for key in [STATUS, COMMIT_STATUS] {
        kubelet.expect(&["annotate", "node", "node-1", &format!("{key}-")])?;
    }
    plane.admin().expect(&["uncordon", "node-1"])?;
    Ok(())
}
