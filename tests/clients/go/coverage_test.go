package clients

// How much of the package was exercised: every exported method of the client and of each of its services, by reflection, against the
// coverage profile of the run. A method counts when its code ran and the agent served the call.

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path"
	"reflect"
	"runtime"
	"sort"
	"strings"
	"sync"
	"testing"

	"github.com/hashicorp/nomad/api"
)

// unserved are methods whose route this agent does not have yet: `Service.Method` and what it answered.
var unserved sync.Map

// beyond are methods of what came after 1.6, which this agent refuses as it should: `Service.Method` and what it answered.
var beyond sync.Map

// served says whether the agent has the route that a method calls. Where it has not, the rest of a story is skipped.
func served(t *testing.T, method string, err error) bool {
	t.Helper()
	var unexpected api.UnexpectedResponseError
	if err == nil || !errors.As(err, &unexpected) {
		return true
	}
	status, body := unexpected.StatusCode(), strings.TrimSpace(unexpected.Body())
	missing := status == http.StatusNotImplemented && !strings.Contains(body, "Nomad Enterprise") ||
		status == http.StatusNotFound && (body == "" || body == "resource not found") || status == http.StatusMethodNotAllowed
	if missing {
		unserved.Store(method, fmt.Sprintf("%d %s", status, body))
		t.Logf("not served: %s: %d %s", method, status, body)
	}
	return !missing
}

// unservedMax bounds how many methods may be answered `not served`. It only shrinks.
const unservedMax = 2

// services are the types that the client hands out, and those that these hand out.
func services() []reflect.Type {
	client := reflect.TypeOf(&api.Client{})
	types := []reflect.Type{client}
	seen := map[reflect.Type]bool{client: true}
	for at := 0; at < len(types); at++ {
		for i := range types[at].NumMethod() {
			method := types[at].Method(i)
			// `Client.Jobs()`, `Nodes.Meta()`: no argument but the receiver, one result; locks take arguments.
			plain := method.Type.NumIn() == 1 && method.Type.NumOut() == 1
			lock := types[at] == client && strings.Contains(method.Name, "Lock") && method.Type.NumOut() >= 1
			if !plain && !lock {
				continue
			}
			result := method.Type.Out(0)
			isService := result.Kind() == reflect.Pointer && result.Elem().Kind() == reflect.Struct &&
				result.Elem().PkgPath() == client.Elem().PkgPath()
			if isService && !seen[result] {
				seen[result] = true
				types = append(types, result)
			}
		}
	}
	return types
}

// block is a stretch of code that ran or did not.
type block struct {
	line int
	ran  bool
}

// report prints how much was exercised, and fails when a method is neither exercised, nor known as not served, nor excused.
func report() (int, error) {
	profile := flag.Lookup("test.coverprofile")
	only := flag.Lookup("test.run")
	if profile == nil || profile.Value.String() == "" || only != nil && only.Value.String() != "" {
		fmt.Println("no coverage profile of a whole run: methods are not counted")
		return 0, nil
	}
	blocks, err := readProfile(profile.Value.String())
	if err != nil {
		return 1, err
	}
	total, exercised := 0, 0
	var missing, excused, absent, later []string
	for _, service := range services() {
		for i := range service.NumMethod() {
			method := service.Method(i)
			name := service.Elem().Name() + "." + method.Name
			if isPromoted(method) {
				continue
			}
			reason, isExcused := notCalled[name]
			total++
			why, isAbsent := unserved.Load(name)
			refusal, isLater := beyond.Load(name)
			ran := didRun(blocks, method)
			switch {
			case isLater:
				later = append(later, fmt.Sprintf("%s: %v", name, refusal))
			case isAbsent:
				absent = append(absent, fmt.Sprintf("%s: %v", name, why))
			case ran && !isExcused:
				exercised++
			case isExcused && !ran:
				excused = append(excused, name+": "+reason)
			case isExcused:
				return 1, fmt.Errorf("%s was called: it needs no excuse", name)
			default:
				missing = append(missing, name)
			}
		}
	}
	for kind, names := range map[string][]string{"came after 1.6": later, "not served": absent, "not called": excused, "forgotten": missing} {
		sort.Strings(names)
		for _, name := range names {
			fmt.Printf("%s: %s\n", kind, name)
		}
	}
	fmt.Printf("== clients/go, %s: %d of %d methods exercised, %d not served, %d came after 1.6, %d not called for a reason\n",
		generation, exercised, total, len(absent), len(later), len(excused))
	if len(missing) > 0 {
		return 1, fmt.Errorf("no story calls %s", strings.Join(missing, ", "))
	}
	if len(absent) > unservedMax {
		return 1, fmt.Errorf("%d methods are not served, at most %d may be", len(absent), unservedMax)
	}
	return 0, nil
}

// readProfile gives the blocks of each file, in order.
func readProfile(name string) (map[string][]block, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	blocks := map[string][]block{}
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		// `github.com/hashicorp/nomad/api/jobs.go:12.34,56.7 2 1`, after a line with the mode.
		source, rest, found := strings.Cut(lines.Text(), ".go:")
		if !found {
			continue
		}
		var line, column, endLine, endColumn, statements, count int
		if _, err := fmt.Sscanf(rest, "%d.%d,%d.%d %d %d", &line, &column, &endLine, &endColumn, &statements, &count); err != nil {
			return nil, fmt.Errorf("line %q of the profile: %w", lines.Text(), err)
		}
		blocks[path.Base(source)] = append(blocks[path.Base(source)], block{line, count > 0})
	}
	for _, file := range blocks {
		sort.SliceStable(file, func(i, j int) bool { return file[i].line < file[j].line })
	}
	return blocks, lines.Err()
}

// isPromoted says whether a method is one of an embedded type, where it counts.
func isPromoted(method reflect.Method) bool {
	function := runtime.FuncForPC(method.Func.Pointer())
	source, _ := function.FileLine(function.Entry())
	return source == "<autogenerated>"
}

func TestEveryServiceIsHandedOut(t *testing.T) {
	client := reflect.ValueOf(dev(t))
	for i := range client.NumMethod() {
		method := client.Method(i)
		if method.Type().NumIn() == 0 && method.Type().NumOut() == 1 && method.Type().Out(0).Kind() == reflect.Pointer {
			check(t, !method.Call(nil)[0].IsNil(), "%s is nothing", client.Type().Method(i).Name)
		}
	}
}

// didRun says whether the first block of a method ran.
func didRun(blocks map[string][]block, method reflect.Method) bool {
	function := runtime.FuncForPC(method.Func.Pointer())
	source, line := function.FileLine(function.Entry())
	file := blocks[strings.TrimSuffix(path.Base(source), ".go")]
	first := sort.Search(len(file), func(i int) bool { return file[i].line >= line })
	return first < len(file) && file[first].ran
}
