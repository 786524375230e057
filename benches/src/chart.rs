//! Charts of measurements as SVG files: lines over one axis of time, each with a scale of its own.

use std::fmt::Write;

const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 360.0;
/// Room around the lines, for texts.
const MARGIN: f64 = 60.0;
const COLOURS: [&str; 3] = ["#1f6feb", "#d1242f", "#1a7f37"];

/// Lines over time.
pub struct Chart {
    pub title: String,
    /// Text below the axis of time.
    pub below: String,
    pub lines: Vec<Line>,
}

/// One line. The greatest value is at the top.
pub struct Line {
    pub name: String,
    pub points: Vec<(f64, f64)>,
}

impl Chart {
    /// The chart as the text of an SVG file.
    pub fn svg(&self) -> String {
        let most = |of: fn(&(f64, f64)) -> f64, points: &[(f64, f64)]| points.iter().map(of).fold(1e-9, f64::max);
        let end = self.lines.iter().map(|line| most(|point| point.0, &line.points)).fold(1e-9, f64::max);
        let (across, up) = (WIDTH - 2.0 * MARGIN, HEIGHT - 2.0 * MARGIN);
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" \
             font-size=\"13\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
             <text x=\"{MARGIN}\" y=\"20\" font-size=\"16\">{}</text>\n\
             <path d=\"M{MARGIN} {MARGIN} V{bottom} H{right}\" fill=\"none\" stroke=\"#888\"/>\n\
             <text x=\"{right}\" y=\"{under}\" text-anchor=\"end\">{end:.0} {}</text>\n",
            escaped(&self.title),
            escaped(&self.below),
            bottom = HEIGHT - MARGIN,
            right = WIDTH - MARGIN,
            under = HEIGHT - MARGIN + 20.0,
        );
        for (place, (line, colour)) in self.lines.iter().zip(COLOURS.iter().cycle()).enumerate() {
            let top = most(|point| point.1, &line.points);
            let points: Vec<String> = line
                .points
                .iter()
                .map(|(x, y)| format!("{:.1},{:.1}", MARGIN + x / end * across, HEIGHT - MARGIN - y / top * up))
                .collect();
            // Writing to a text cannot fail.
            let _ = writeln!(
                out,
                "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\"/>\n\
                 <text x=\"{}\" y=\"45\" fill=\"{colour}\">{} (up to {top:.0})</text>",
                points.join(" "),
                MARGIN + 260.0 * place as f64,
                escaped(&line.name),
            );
        }
        out.push_str("</svg>\n");
        out
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}
