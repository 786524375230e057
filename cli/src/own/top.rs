//! `top`: a page on the terminal with nodes, jobs and the latest events, drawn again as they change.

use std::collections::VecDeque;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

use clap::Args;
use ratatui::Frame;
use ratatui::crossterm::event::{self as keyboard, Event, KeyCode, KeyModifiers};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Block, Paragraph, Row, Table};
use serde_json::Value;
use tokio::sync::mpsc;

use super::event;
use crate::client::{Client, short, text};
use crate::exit::{Exit, Failure, Outcome, Tried};
use crate::jobs::lists::items;
use crate::{Context, General, Run};

/// Interval at which the page is drawn, and at most asked for.
const DRAW_INTERVAL: Duration = Duration::from_millis(500);
/// Time over which the rate of events is the mean.
const RATE_OVER: Duration = Duration::from_secs(10);
/// Number of latest events that are kept.
const EVENTS_MAX: usize = 500;

/// Arguments of `top`.
#[derive(Args)]
pub(crate) struct Top {
    #[command(flatten)]
    general: General,
}

impl Run for Top {
    async fn run(self, _: &Context) -> Outcome {
        if !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
            return Err(Failure::new(
                "top needs a terminal; 'event follow', 'node status' and 'job status' print to pipes and files",
            ));
        }
        let client = self.general.client()?;
        let mut page = Page::new(client.address().to_owned());
        // The first answers come before the page: an agent that cannot be reached is told as by every other command.
        page.ask(&client).await?;
        let mut lines = event::follow(&client, "from=now").await.tried("Error opening the event stream")?;
        let mut keys = keys();
        let screen = Screen(ratatui::try_init().tried("Error taking the terminal")?);
        watch(screen, &client, &mut page, &mut lines, &mut keys).await
    }
}

/// The terminal while the page has it; dropping it gives the terminal back.
struct Screen(ratatui::DefaultTerminal);

impl Drop for Screen {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

async fn watch(
    mut screen: Screen,
    client: &Client,
    page: &mut Page,
    lines: &mut event::Lines,
    keys: &mut mpsc::UnboundedReceiver<Key>,
) -> Outcome {
    let mut ticks = tokio::time::interval(DRAW_INTERVAL);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            line = lines.next() => match line.tried("Error reading the event stream")? {
                // A frame that is no JSON is the stream's last sentence.
                Some(line) => page.take(&serde_json::from_str(&line).unwrap_or_else(|_| serde_json::json!({ "Closed": line })), Instant::now()),
                None => return Err(Failure::new("The agent has ended the event stream")),
            },
            key = keys.recv() => match key {
                Some(Key::Other) => {}
                Some(Key::Leave) | None => return Ok(Exit::DONE),
            },
            _ = ticks.tick() => {
                if page.has_news {
                    page.ask(client).await?;
                }
                screen.0.draw(|frame| page.draw(frame, Instant::now())).tried("Error drawing")?;
            }
        }
    }
}

/// A pressed key.
enum Key {
    Leave,
    /// Any other, and a change of the terminal's size.
    Other,
}

/// Keys as they are pressed. Their thread ends with the process.
fn keys() -> mpsc::UnboundedReceiver<Key> {
    let (tell, told) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        while let Ok(event) = keyboard::read() {
            let key = match event {
                Event::Key(key) if matches!(key.code, KeyCode::Char('q') | KeyCode::Esc) => Key::Leave,
                // The terminal's own meaning of Ctrl-C is off.
                Event::Key(key) if key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL) => {
                    Key::Leave
                }
                _ => Key::Other,
            };
            if tell.send(key).is_err() {
                return;
            }
        }
    });
    told
}

/// Content of the page.
struct Page {
    address: String,
    nodes: Vec<Vec<String>>,
    jobs: Vec<Vec<String>>,
    /// Readable lines, newest first.
    events: VecDeque<String>,
    /// Numbers of events with their times, oldest first.
    counts: VecDeque<(Instant, usize)>,
    index: u64,
    /// Whether nodes and jobs may have changed since they were asked for.
    has_news: bool,
}

impl Page {
    fn new(address: String) -> Self {
        let (events, counts) = (VecDeque::new(), VecDeque::new());
        Self { address, nodes: Vec::new(), jobs: Vec::new(), events, counts, index: 0, has_news: true }
    }

    async fn ask(&mut self, client: &Client) -> Result<(), Failure> {
        self.show_nodes(&client.get("/v1/nodes").await.tried("Error querying nodes")?);
        self.show_jobs(&client.get("/v1/jobs").await.tried("Error querying jobs")?);
        self.has_news = false;
        Ok(())
    }

    fn show_nodes(&mut self, nodes: &Value) {
        let row = |node: &Value| {
            let drains = if node["Drain"] == true { "draining" } else { text(&node["SchedulingEligibility"]) };
            [short(&node["ID"]), text(&node["Name"]), text(&node["NodePool"]), text(&node["Status"]), drains]
                .map(str::to_owned)
                .to_vec()
        };
        self.nodes = items(nodes).iter().map(row).collect();
    }

    fn show_jobs(&mut self, jobs: &Value) {
        let row = |job: &Value| {
            let groups = job["JobSummary"]["Summary"].as_object();
            let sum = |key: &str| {
                let counts = groups.into_iter().flatten().filter_map(|(_, counts)| counts[key].as_u64());
                counts.sum::<u64>().to_string()
            };
            vec![
                text(&job["ID"]).to_owned(),
                text(&job["Type"]).to_owned(),
                text(&job["Status"]).to_owned(),
                sum("Running"),
                sum("Queued"),
                sum("Failed"),
            ]
        };
        self.jobs = items(jobs).iter().map(row).collect();
    }

    /// Takes a frame of the event stream.
    fn take(&mut self, frame: &Value, now: Instant) {
        let lines = event::readable(frame);
        let events = items(&frame["Events"]);
        if !events.is_empty() {
            self.counts.push_back((now, events.len()));
            self.has_news = true;
        }
        self.index = frame["Index"].as_u64().unwrap_or(self.index).max(self.index);
        for line in lines {
            self.events.push_front(line);
        }
        self.events.truncate(EVENTS_MAX);
    }

    /// Mean of the events per second.
    fn rate(&self, now: Instant) -> f64 {
        let recent = self.counts.iter().filter(|(at, _)| now.duration_since(*at) <= RATE_OVER);
        let events: usize = recent.map(|(_, count)| count).sum();
        events as f64 / RATE_OVER.as_secs_f64()
    }

    fn draw(&mut self, frame: &mut Frame<'_>, now: Instant) {
        while self.counts.front().is_some_and(|(at, _)| now.duration_since(*at) > RATE_OVER) {
            self.counts.pop_front();
        }
        let [head, lists, events] =
            Layout::vertical([Constraint::Length(1), Constraint::Fill(1), Constraint::Fill(1)]).areas(frame.area());
        let [nodes, jobs] = Layout::horizontal([Constraint::Fill(1), Constraint::Fill(1)]).areas(lists);
        let title = format!("{}   index {}   {:.1} events/s   q: leave", self.address, self.index, self.rate(now));
        frame.render_widget(Paragraph::new(title).style(Style::new().add_modifier(Modifier::BOLD)), head);
        let of_nodes = ["ID", "Name", "Pool", "Status", "Eligibility"];
        table(frame, nodes, &format!("Nodes ({})", self.nodes.len()), &of_nodes, &self.nodes);
        let of_jobs = ["ID", "Type", "Status", "Running", "Queued", "Failed"];
        table(frame, jobs, &format!("Jobs ({})", self.jobs.len()), &of_jobs, &self.jobs);
        let lines: Vec<Line<'_>> = self.events.iter().map(|line| Line::raw(line.as_str())).collect();
        frame.render_widget(Paragraph::new(lines).block(Block::bordered().title("Events")), events);
    }
}

/// A list with headings in a frame; columns are as wide as their widest cell.
fn table(frame: &mut Frame<'_>, area: Rect, title: &str, headings: &[&str], rows: &[Vec<String>]) {
    let width = |at: usize| {
        let cells = rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.chars().count());
        let widest = cells.chain([headings[at].len()]).max().unwrap_or(0);
        Constraint::Length(u16::try_from(widest).unwrap_or(u16::MAX))
    };
    let widths: Vec<Constraint> = (0..headings.len()).map(width).collect();
    let head = Row::new(headings.iter().copied()).style(Style::new().add_modifier(Modifier::BOLD));
    let rows = rows.iter().map(|row| Row::new(row.iter().map(String::as_str)));
    let list = Table::new(rows, widths).header(head).block(Block::bordered().title(title.to_owned()));
    frame.render_widget(list, area);
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use serde_json::json;

    use super::*;

    fn page(now: Instant) -> Page {
        let mut page = Page::new("http://agent".to_owned());
        page.show_nodes(&json!([{
            "ID": "baec9e97-0000-0000-0000-000000000000", "Name": "one", "NodePool": "default", "Status": "ready",
            "SchedulingEligibility": "eligible", "Drain": false,
        }]));
        page.show_jobs(&json!([{
            "ID": "web", "Type": "service", "Status": "running",
            "JobSummary": {"Summary": {"a": {"Running": 2, "Queued": 1}, "b": {"Running": 1, "Failed": 4}}},
        }]));
        for index in [7, 8] {
            let events = json!([{"Index": index, "Topic": "Job", "Type": "JobRegistered", "Payload": {"Job": {"ID": "web", "Version": 0, "Status": "running"}}}]);
            page.take(&json!({"Index": index, "Events": events}), now);
        }
        page
    }

    #[test]
    fn page_shows_nodes_jobs_and_the_newest_events_first() {
        let now = Instant::now();
        let mut terminal = Terminal::new(TestBackend::new(96, 12)).expect("a terminal");
        terminal.draw(|frame| page(now).draw(frame, now)).expect("it is drawn");
        let buffer = terminal.backend().buffer();
        let line = |row: u16| (0..96).map(|column| buffer[(column, row)].symbol()).collect::<String>();
        let drawn: String = (0..12).map(|row| format!("{}\n", line(row).trim_end())).collect();
        expect![[r#"
            http://agent   index 8   0.2 events/s   q: leave
            ┌Nodes (1)─────────────────────────────────────┐┌Jobs (1)──────────────────────────────────────┐
            │ID       Name Pool    Status Eligibility      ││ID  Type    Status  Running Queued Failed     │
            │baec9e97 one  default ready  eligible         ││web service running 3       1      4          │
            │                                              ││                                              │
            │                                              ││                                              │
            └──────────────────────────────────────────────┘└──────────────────────────────────────────────┘
            ┌Events────────────────────────────────────────────────────────────────────────────────────────┐
            │     8  Job         JobRegistered             web version 0 is running                        │
            │     7  Job         JobRegistered             web version 0 is running                        │
            │                                                                                              │
            └──────────────────────────────────────────────────────────────────────────────────────────────┘
        "#]]
        .assert_eq(&drawn);
    }

    #[test]
    fn rate_is_the_mean_of_the_last_seconds_and_heartbeats_are_no_news() {
        let now = Instant::now();
        let mut page = page(now);
        assert!((page.rate(now) - 0.2).abs() < 1e-9);
        assert!(page.rate(now + RATE_OVER + Duration::from_secs(1)).abs() < 1e-9);
        page.has_news = false;
        page.take(&json!({}), now);
        assert!(!page.has_news && page.index == 8);
    }
}
