// Follows the event stream into a file of JSON lines and resumes exactly where the file ends.
//
// Usage: go run . ADDRESS FILE [QUERY]       go run . http://127.0.0.1:4646 events.jsonl 'topic=Job&topic=Node'
//
// Every line of the file is a frame or a mark of the stream; its index is the cursor of the next request. So a line and
// the position after it are written by the same write, and a crash can neither lose nor repeat an event.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"time"
)

// frame has the parts of a frame or mark that decide about the position.
type frame struct {
	Index *uint64
	Gap   *struct{ Oldest uint64 }
	// Reason why the server ends the stream.
	Closed *string
}

// cursor returns the index to resume after; false for a heartbeat.
func (f frame) cursor() (uint64, bool) {
	if f.Gap != nil {
		return f.Gap.Oldest - 1, true
	}
	if f.Index == nil {
		return 0, false
	}
	return *f.Index, true
}

// lastCursor returns the cursor of the last whole line; 0 for an empty file. It removes a line that a crash has cut short.
func lastCursor(file *os.File) (uint64, error) {
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return 0, err
	}
	var position uint64
	var end int64
	for lines := bufio.NewReader(file); ; {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return 0, err
		}
		var read frame
		if err := json.Unmarshal(line, &read); err != nil {
			return 0, err
		}
		position, _ = read.cursor()
		end += int64(len(line))
	}
	if err := file.Truncate(end); err != nil {
		return 0, err
	}
	_, err := file.Seek(end, io.SeekStart)
	return position, err
}

// follow appends the stream to the file until it ends. The bool tells whether another attempt may succeed.
func follow(address, query string, file *os.File) (bool, error) {
	after, err := lastCursor(file)
	if err != nil {
		return false, err
	}
	request, err := http.NewRequest("GET", fmt.Sprintf("%s/v1/event/stream?after_index=%d&%s", address, after, query), nil)
	if err != nil {
		return false, err
	}
	if token := os.Getenv("NOMAD_TOKEN"); token != "" {
		request.Header.Set("X-Nomad-Token", token)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return true, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(response.Body)
		return response.StatusCode >= 500, fmt.Errorf("%s: %s", response.Status, text)
	}
	// The server sends a heartbeat every 30 seconds: a connection without one for 90 seconds is dead.
	silence := time.AfterFunc(90*time.Second, func() { response.Body.Close() })
	defer silence.Stop()
	for lines := bufio.NewReader(response.Body); ; {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return true, err
		}
		silence.Reset(90 * time.Second)
		var read frame
		if err := json.Unmarshal(line, &read); err != nil {
			return true, err
		}
		if read.Gap != nil {
			log.Printf("entries before %d are missing: read the state again", read.Gap.Oldest)
		}
		if read.Closed != nil {
			return true, fmt.Errorf("the server ended the stream: %s", *read.Closed)
		}
		if _, counts := read.cursor(); !counts {
			continue
		}
		if _, err := file.Write(line); err != nil {
			return false, err
		}
	}
}

func main() {
	if len(os.Args) < 3 {
		log.Fatal("usage: subscribe ADDRESS FILE [QUERY]")
	}
	query := ""
	if len(os.Args) > 3 {
		query = os.Args[3]
	}
	file, err := os.OpenFile(os.Args[2], os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		log.Fatal(err)
	}
	for {
		again, err := follow(os.Args[1], query, file)
		if !again {
			log.Fatal(err)
		}
		log.Print(err)
		time.Sleep(500 * time.Millisecond)
	}
}
