//! A Node as a kubelet of a real cluster leaves it: about 15 KB of JSON.

use serde_json::{Value, json};

/// Now, as Kubernetes writes times.
pub(super) fn now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// A fresh Node, without a resourceVersion.
pub fn node(name: &str) -> Value {
    let now = now();
    json!({
        "kind": "Node",
        "apiVersion": "v1",
        "metadata": metadata(name, &now),
        "spec": {
            "podCIDR": "10.244.1.0/24",
            "podCIDRs": ["10.244.1.0/24"],
            "providerID": format!("azure:///subscriptions/0/resourceGroups/lab/virtualMachines/{name}"),
        },
        "status": status(name, &now),
    })
}

fn metadata(name: &str, now: &str) -> Value {
    json!({
        "name": name,
        "uid": uuid::Uuid::new_v4().to_string(),
        "creationTimestamp": now,
        "labels": {
            "beta.kubernetes.io/arch": "amd64",
            "beta.kubernetes.io/os": "linux",
            "kubernetes.io/arch": "amd64",
            "kubernetes.io/hostname": name,
            "kubernetes.io/os": "linux",
        },
        "annotations": {
            "node.alpha.kubernetes.io/ttl": "0",
            "volumes.kubernetes.io/controller-managed-attach-detach": "true",
        },
        "managedFields": [
            managed("kubelet", "", now, json!({
                "f:metadata": {
                    "f:annotations": {".": {}, "f:volumes.kubernetes.io/controller-managed-attach-detach": {}},
                    "f:labels": {".": {}, "f:kubernetes.io/arch": {}, "f:kubernetes.io/hostname": {}},
                },
                "f:spec": {"f:providerID": {}},
            })),
            managed("kube-controller-manager", "", now, json!({
                "f:metadata": {"f:annotations": {"f:node.alpha.kubernetes.io/ttl": {}}},
                "f:spec": {"f:podCIDR": {}, "f:podCIDRs": {".": {}, "v:\"10.244.1.0/24\"": {}}},
            })),
            managed("kubelet", "status", now, json!({
                "f:status": {"f:conditions": {"k:{\"type\":\"Ready\"}": {"f:lastHeartbeatTime": {}}}, "f:images": {}},
            })),
        ],
    })
}

fn managed(manager: &str, subresource: &str, now: &str, fields: Value) -> Value {
    let mut entry = json!({
        "manager": manager,
        "operation": "Update",
        "apiVersion": "v1",
        "time": now,
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
    });
    if !subresource.is_empty() {
        entry["subresource"] = subresource.into();
    }
    entry
}

fn status(name: &str, now: &str) -> Value {
    let resources = json!({
        "cpu": "4", "ephemeral-storage": "129886128Ki", "hugepages-1Gi": "0",
        "hugepages-2Mi": "0", "memory": "16374628Ki", "pods": "110",
    });
    json!({
        "capacity": resources.clone(),
        "allocatable": resources,
        "conditions": conditions(now),
        "addresses": [
            {"type": "InternalIP", "address": "10.0.0.11"},
            {"type": "Hostname", "address": name},
        ],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        "nodeInfo": {
            "machineID": "0b1f3a6d9c5e4c06a7d2f0a1b2c3d4e5",
            "systemUUID": "4c4c4544-0042-3510-8053-b4c04f4d3332",
            "bootID": "e68da281-3ae2-4ccf-94c7-80bce0b2859a",
            "kernelVersion": "6.6.96.1-1.azl3",
            "osImage": "Microsoft Azure Linux 3.0",
            "containerRuntimeVersion": "containerd://2.0.0",
            "kubeletVersion": "v1.33.2",
            "kubeProxyVersion": "",
            "operatingSystem": "linux",
            "architecture": "amd64",
        },
        "images": (0..20).map(image).collect::<Vec<_>>(),
    })
}

fn conditions(now: &str) -> Value {
    let condition = |kind: &str, status: &str, reason: &str, message: &str| {
        json!({
            "type": kind, "status": status, "reason": reason, "message": message,
            "lastHeartbeatTime": now, "lastTransitionTime": now,
        })
    };
    json!([
        condition(
            "MemoryPressure",
            "False",
            "KubeletHasSufficientMemory",
            "kubelet has sufficient memory available"
        ),
        condition(
            "DiskPressure",
            "False",
            "KubeletHasNoDiskPressure",
            "kubelet has no disk pressure"
        ),
        condition(
            "PIDPressure",
            "False",
            "KubeletHasSufficientPID",
            "kubelet has sufficient PID available"
        ),
        condition("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
    ])
}

fn image(n: u64) -> Value {
    let digest = format!("{:064x}", (n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let repository = format!("mcr.example.com/oss/kubernetes/component-{n:02}");
    json!({
        "names": [format!("{repository}@sha256:{digest}"), format!("{repository}:v1.{n}.0-rc.1-amd64")],
        "sizeBytes": 31_000_000 + n * 7_654_321,
    })
}
