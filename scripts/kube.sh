#!/bin/sh
# A Kubernetes with our images and the chart: `scripts/kube.sh up` prints its kubeconfig, `play` applies
# an example as well and says what to try, `down` removes what this made. `prepare` only does beforehand what
# takes long the first time: programs and images.
#
# The cluster is that of KUBECONFIG if it is set, else kind where a Docker engine runs, else throwaway
# nodes (tests/e2e/kube). A cluster of yours must be able to pull the images: give IMAGE_NODE and
# IMAGE_OPERATOR; otherwise they are built and loaded. IMAGE_NODE_NEXT is the same node under another name, for
# tests that change the image.
set -eu
cd "$(dirname "$0")/.."

nodes=${NODES:-3}
namespace=holdfast-system
node=${IMAGE_NODE:-localhost/holdfast:dev}
operator=${IMAGE_OPERATOR:-localhost/holdfast-operator:dev}
next=${IMAGE_NODE_NEXT:-localhost/holdfast:next}
recipe=tests/e2e/kube

say() { printf 'kube: %s\n' "$*" >&2; }

kind_of() {
    if [ -n "${KUBECONFIG:-}" ]; then echo given
    elif command -v kind >/dev/null 2>&1 && docker info >/dev/null 2>&1; then echo kind
    else echo throwaway
    fi
}

start() {
    case $1 in
    given) echo "$KUBECONFIG" ;;
    kind)
        kind get clusters 2>/dev/null | grep -qx holdfast || {
            { echo 'kind: Cluster'; echo 'apiVersion: kind.x-k8s.io/v1alpha4'; echo 'nodes:'
              echo '- role: control-plane'
              for n in $(seq "$nodes"); do
                  printf -- '- role: worker\n  labels: {topology.kubernetes.io/zone: zone-%s}\n' "$n"
              done; } | kind create cluster --name holdfast --config - >&2
        }
        kind get kubeconfig --name holdfast >.kind.kubeconfig
        echo "$PWD/.kind.kubeconfig" ;;
    throwaway) "$recipe/up" "$nodes" ;;
    esac
}

build() {
    [ -z "${IMAGE_NODE:-}" ] || return 0
    for target in node operator; do
        name=$node
        [ $target = node ] || name=$operator
        say "building $name"
        case $1 in
        throwaway)
            buildah build -q --layers --network host --target $target -t "$name" --build-arg BASE="$("$recipe/base")" . >&2 ;;
        *) docker build -q --target $target -t "$name" . >&2 ;;
        esac
    done
}

load() {
    [ -z "${IMAGE_NODE:-}" ] || return 0
    case $1 in
    kind)
        docker tag "$node" "$next"
        kind load docker-image --name holdfast "$node" "$next" "$operator" >&2 ;;
    throwaway) "$recipe/load" "$node=$next" "$operator" >&2 ;;
    esac
}

# Which image the operator's name means: another one under the same name is rolled out as well.
image_of() {
    case $1 in
    kind) docker image inspect -f '{{.Id}}' "$operator" ;;
    throwaway) buildah images -q --no-trunc "$operator" ;;
    esac
}

prepare() {
    choice=$(kind_of)
    if [ "$choice" = throwaway ]; then
        programs=$("$recipe/build")
        export PATH="$PATH:$programs" BUILDAH_RUNTIME=runc
    fi
    build "$choice"
}

up() {
    prepare
    config=$(start "$choice")
    load "$choice"
    say "installing the chart"
    KUBECONFIG=$config helm upgrade --install holdfast charts/holdfast \
        --namespace $namespace --create-namespace --wait --timeout 3m \
        --set image.node="$node" --set image.operator="$operator" \
        --set-string operator.podAnnotations.image="$(image_of "$choice")" >&2
    KUBECONFIG=$config kubectl wait validatingwebhookconfiguration/holdfast-operator \
        --for=jsonpath='{.webhooks[*].name}'=validate.holdfast.io --timeout=1m >&2
    echo "$config"
}

play() {
    config=$(up)
    export KUBECONFIG=$config
    kubectl apply -f examples/cluster.yaml >&2
    kubectl wait --for=condition=Ready hfc/orders --timeout=3m >&2
    cat <<TEXT
export KUBECONFIG=$config
kubectl get hfc orders -w                                                       # what is so
kubectl patch hfc orders --type=merge -p '{"spec":{"state":"STABLE_CLUSTER"}}'  # what may move
kubectl patch hfc orders --type=merge -p '{"spec":{"lite":{"promote":1}}}'      # a running pod gets partitions
kubectl scale hfc orders --replicas 4
kubectl delete pod orders-1
kubectl describe hfc orders
make kube-down                                                                  # all of it goes
TEXT
}

down() {
    case $(kind_of) in
    given) say "the cluster is yours: helm -n $namespace uninstall holdfast" ;;
    kind) kind delete cluster --name holdfast >&2; rm -f .kind.kubeconfig ;;
    throwaway) "$recipe/down" ;;
    esac
}

# Whether there is what `up` would use, so that whoever makes it knows what to remove.
is_up() {
    case $(kind_of) in
    given) ;;
    kind) kind get clusters 2>/dev/null | grep -qx holdfast ;;
    throwaway) [ -f "${HOLDFAST_KUBE_DIR:-/var/lib/holdfast-kube}/run/apiserver.pid" ] ;;
    esac
}

case ${1:-} in
is-up) is_up ;;
prepare | up | play | down) "$1" ;;
*) sed -n 2,10p "$0" >&2; exit 2 ;;
esac
