// CoreDNS with the plugins that the throwaway nodes use, and no other.
package main

import (
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/loop"

	"github.com/coredns/coredns/coremain"
)

func main() { coremain.Run() }
