//! `tls ca` and `tls cert`: the certificates of a cluster's agents.

use std::io::Write;
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use clap::Args;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, GeneralSubtree, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, NameConstraints, SanType,
};
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::exit::{Exit, Failure, Outcome, Tried};
use crate::layout::columns;
use crate::{Context, Run, errln, input, outln, values};

/// Seconds of a day.
const DAY: i64 = 24 * 60 * 60;
/// Nanoseconds of a second.
const SECOND: i64 = 1_000_000_000;

/// Arguments of `tls ca create`.
#[derive(Args)]
pub(crate) struct CaCreate {
    /// Domain of the cluster.
    #[arg(long, default_value = "nomad")]
    domain: String,
    /// Days for which the certificate is valid.
    #[arg(long, default_value_t = 1825)]
    days: i64,
    /// Whether the authority may only sign names below its domains.
    #[arg(long)]
    name_constraint: bool,
    /// Further domain; may be given several times.
    #[arg(long)]
    additional_domain: Vec<String>,
    /// Common name of the authority.
    #[arg(long)]
    common_name: Option<String>,
    /// Country of the subject.
    #[arg(long)]
    country: Option<String>,
    /// Postal code of the subject.
    #[arg(long)]
    postal_code: Option<String>,
    /// Province of the subject.
    #[arg(long)]
    province: Option<String>,
    /// Locality of the subject.
    #[arg(long)]
    locality: Option<String>,
    /// Street of the subject.
    #[arg(long)]
    street_address: Option<String>,
    /// Organization of the subject.
    #[arg(long)]
    organization: Option<String>,
    /// Organizational unit of the subject.
    #[arg(long)]
    organizational_unit: Option<String>,
}

/// X.520's attribute types that have no name of their own in the library.
const POSTAL_CODE: &[u64] = &[2, 5, 4, 17];
const STREET: &[u64] = &[2, 5, 4, 9];

impl CaCreate {
    fn subject(&self) -> Result<DistinguishedName, Failure> {
        let parts = [
            (DnType::CountryName, &self.country),
            (DnType::CustomDnType(POSTAL_CODE.to_vec()), &self.postal_code),
            (DnType::StateOrProvinceName, &self.province),
            (DnType::LocalityName, &self.locality),
            (DnType::CustomDnType(STREET.to_vec()), &self.street_address),
            (DnType::OrganizationName, &self.organization),
            (DnType::OrganizationalUnitName, &self.organizational_unit),
        ];
        let mut name = DistinguishedName::new();
        match &self.common_name {
            Some(common) if parts.iter().all(|(_, part)| part.is_some()) => {
                name.push(DnType::CommonName, common.clone());
            }
            Some(_) => {
                let missing =
                    "country, postal code, province, locality, street address, organization and organizational unit";
                return Err(Failure::new(format!("Please provide {missing} with a common name")));
            }
            None => {
                name.push(DnType::CommonName, "Nomad Agent CA");
                name.push(DnType::OrganizationName, "HashiCorp Inc.");
                return Ok(name);
            }
        }
        for (kind, value) in parts {
            if let Some(value) = value {
                name.push(kind, value.clone());
            }
        }
        Ok(name)
    }
}

impl Run for CaCreate {
    async fn run(self, _: &Context) -> Outcome {
        if !self.additional_domain.is_empty() && !self.name_constraint {
            return Err(Failure::new("Please use -name-constraint with -additional-domain"));
        }
        let subject = self.subject()?;
        let (file, key_file) = (format!("{}-agent-ca.pem", self.domain), format!("{}-agent-ca-key.pem", self.domain));
        free("CA certificate", &file)?;
        free("CA key", &key_file)?;
        let mut params = valid_for(self.days)?;
        params.distinguished_name = subject;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages =
            vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
        if self.name_constraint {
            let mut domains = self.additional_domain.clone();
            domains.extend([self.domain.clone(), "localhost".to_owned()]);
            let permitted_subtrees = domains.into_iter().map(GeneralSubtree::DnsName).collect();
            params.name_constraints = Some(NameConstraints { permitted_subtrees, excluded_subtrees: Vec::new() });
        }
        let key = KeyPair::generate().tried("Error generating CA key")?;
        let certificate = params.self_signed(&key).tried("Error generating CA")?;
        write(&file, &certificate.pem(), 0o644)?;
        outln!("==> CA certificate saved to: {file}");
        write(&key_file, &key.serialize_pem(), 0o600)?;
        outln!("==> CA certificate key saved to: {key_file}");
        Ok(Exit::DONE)
    }
}

/// Arguments of `tls cert create`.
#[derive(Args)]
pub(crate) struct CertCreate {
    /// A certificate of a server.
    #[arg(long)]
    server: bool,
    /// A certificate of a node.
    #[arg(long)]
    client: bool,
    /// A certificate of the command line.
    #[arg(long)]
    cli: bool,
    /// File of the authority's certificate; by default that of the domain.
    #[arg(long)]
    ca: Option<String>,
    /// File of the authority's key; by default that of the domain.
    #[arg(long)]
    key: Option<String>,
    /// Region of the agent.
    #[arg(long, default_value = "global")]
    cluster_region: String,
    /// Days for which the certificate is valid.
    #[arg(long, default_value_t = 365)]
    days: i64,
    /// Domain of the cluster.
    #[arg(long, default_value = "nomad")]
    domain: String,
    /// Further name of the agent; may be given several times.
    #[arg(long)]
    additional_dnsname: Vec<String>,
    /// Further address of the agent; may be given several times.
    #[arg(long)]
    additional_ipaddress: Vec<String>,
}

impl CertCreate {
    /// The role, in a name, and as the two messages have it.
    fn role(&self) -> Result<(&'static str, &'static str, &'static str), Failure> {
        match (self.server, self.client, self.cli) {
            (true, false, false) => Ok(("server", "Server", "Server")),
            (false, true, false) => Ok(("client", "Client", "Client")),
            (false, false, true) => Ok(("cli", "Cli", "CLI")),
            _ => Err(Failure::new("Please provide either -server, -client, or -cli")),
        }
    }

    /// Names and addresses of the certificate.
    fn names(&self, role: &str) -> Result<Vec<SanType>, Failure> {
        let mut names = self.additional_dnsname.clone();
        names.push(format!("{role}.{}.{}", self.cluster_region, self.domain));
        if self.cluster_region != "global" && role == "server" {
            names.push(format!("{role}.global.{}", self.domain));
        }
        names.push("localhost".to_owned());
        let mut all = Vec::new();
        for name in names {
            let name = name.as_str().try_into().tried(&format!("Invalid DNS name {name:?}"))?;
            all.push(SanType::DnsName(name));
        }
        for address in self.additional_ipaddress.iter().map(String::as_str).chain(["127.0.0.1"]) {
            let address: IpAddr = address.parse().tried(&format!("Invalid IP address {address:?}"))?;
            all.push(SanType::IpAddress(address));
        }
        Ok(all)
    }
}

impl Run for CertCreate {
    async fn run(self, _: &Context) -> Outcome {
        let (role, shown, shown_key) = self.role()?;
        let begin = format!("{}-{role}-{}", self.cluster_region, self.domain);
        let (file, key_file) = (format!("{begin}.pem"), format!("{begin}-key.pem"));
        free("Certificate", &file)?;
        free("Key", &key_file)?;
        let ca_file = self.ca.clone().unwrap_or_else(|| format!("{}-agent-ca.pem", self.domain));
        let ca_key_file = self.key.clone().unwrap_or_else(|| format!("{}-agent-ca-key.pem", self.domain));
        let ca = input::open(&ca_file).tried("Error reading CA")?;
        let ca_key = KeyPair::from_pem(&input::open(&ca_key_file).tried("Error reading CA key")?)
            .tried("Error reading CA key")?;
        if role == "server" {
            errln!(
                "==> WARNING: a server certificate gives its holder the whole state of the cluster, root keys and tokens included.\n    \
                 Keep it on servers only."
            );
        }
        outln!("==> Using CA file {ca_file} and CA key {ca_key_file}");
        let issuer = Issuer::from_ca_cert_pem(&ca, ca_key).tried("Error reading CA")?;
        let mut params = valid_for(self.days)?;
        let mut subject = DistinguishedName::new();
        subject.push(DnType::CommonName, format!("{role}.{}.{}", self.cluster_region, self.domain));
        params.distinguished_name = subject;
        params.subject_alt_names = self.names(role)?;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
        // Agents answer and dial with one certificate; the command line only dials.
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        if role != "cli" {
            params.extended_key_usages.push(ExtendedKeyUsagePurpose::ServerAuth);
        }
        let key = KeyPair::generate().tried("Error generating key")?;
        let certificate = params.signed_by(&key, &issuer).tried("Error generating certificate")?;
        write(&file, &certificate.pem(), 0o644)?;
        outln!("==> {shown} Certificate saved to {file}");
        write(&key_file, &key.serialize_pem(), 0o600)?;
        outln!("==> {shown_key} Certificate key saved to {key_file}");
        Ok(Exit::DONE)
    }
}

/// Parameters of a certificate that is valid from now on.
fn valid_for(days: i64) -> Result<CertificateParams, Failure> {
    if days < 1 {
        return Err(Failure::new("-days must be at least 1"));
    }
    let mut params = CertificateParams::default();
    let now = values::now() / SECOND;
    // Clocks of other machines may be a little behind.
    let date = |seconds: i64| {
        rcgen::date_time_ymd(1970, 1, 1)
            .checked_add(std::time::Duration::from_secs(seconds.unsigned_abs()).try_into().ok()?)
    };
    let too_far = || Failure::new(format!("-days {days} is too far away"));
    params.not_before = date(now - 60).ok_or_else(too_far)?;
    params.not_after = days.checked_mul(DAY).and_then(|span| date(now.checked_add(span)?)).ok_or_else(too_far)?;
    Ok(params)
}

/// Refuses a file that exists.
fn free(noun: &str, file: &str) -> Result<(), Failure> {
    if Path::new(file).exists() { Err(Failure::new(format!("{noun} file '{file}' already exists"))) } else { Ok(()) }
}

fn write(file: &str, content: &str, mode: u32) -> Result<(), Failure> {
    let opened = std::fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(file);
    let written = opened.and_then(|mut opened| opened.write_all(content.as_bytes()));
    written.map_err(|error| Failure::of(&format!("Error writing {file}"), error))
}

/// Arguments of `tls ca info`.
#[derive(Args)]
pub(crate) struct CaInfo {
    /// File of the certificate.
    file: String,
}

/// Arguments of `tls cert info`.
#[derive(Args)]
pub(crate) struct CertInfo {
    /// File of the certificate.
    file: String,
}

impl Run for CaInfo {
    async fn run(self, _: &Context) -> Outcome {
        shown(&self.file, true)
    }
}

impl Run for CertInfo {
    async fn run(self, _: &Context) -> Outcome {
        shown(&self.file, false)
    }
}

fn shown(file: &str, is_ca: bool) -> Outcome {
    let text = input::open(file).tried("Error reading certificate file")?;
    let unreadable = |reason: &dyn std::fmt::Display| Failure::of("Error parsing certificate file", reason);
    let (_, pem) = x509_parser::pem::parse_x509_pem(text.as_bytes()).map_err(|error| unreadable(&error))?;
    let (_, certificate) = X509Certificate::from_der(&pem.contents).map_err(|error| unreadable(&error))?;
    let common = |name: &x509_parser::x509::X509Name<'_>| {
        name.iter_common_name().next().and_then(|part| part.as_str().ok().map(str::to_owned)).unwrap_or_default()
    };
    let mut rows = vec![
        vec!["Serial Number".to_owned(), certificate.tbs_certificate.serial.to_string()],
        vec!["Issuer CN".to_owned(), common(certificate.issuer())],
        vec!["Common Name".to_owned(), format!("CN={}", common(certificate.subject()))],
        vec!["Expiry Date".to_owned(), values::time(certificate.validity().not_after.timestamp() * SECOND)],
    ];
    if is_ca {
        rows.push(vec!["Permitted DNS Domains".to_owned(), format!("[{}]", permitted(&certificate).join(" "))]);
    } else {
        let (names, addresses) = alternative(&certificate);
        rows.push(vec!["DNS Names".to_owned(), format!("[{}]", names.join(" "))]);
        rows.push(vec!["IP Addresses".to_owned(), format!("[{}]", addresses.join(" "))]);
    }
    outln!("{}", columns(&rows));
    Ok(Exit::DONE)
}

/// Domains below which an authority may sign.
fn permitted(certificate: &X509Certificate<'_>) -> Vec<String> {
    let mut domains = Vec::new();
    for extension in certificate.extensions() {
        let ParsedExtension::NameConstraints(constraints) = extension.parsed_extension() else { continue };
        for subtree in constraints.permitted_subtrees.iter().flatten() {
            if let GeneralName::DNSName(name) = subtree.base {
                domains.push(name.to_owned());
            }
        }
    }
    domains
}

/// Names and addresses beside the common name.
fn alternative(certificate: &X509Certificate<'_>) -> (Vec<String>, Vec<String>) {
    let (mut names, mut addresses) = (Vec::new(), Vec::new());
    let Ok(Some(extension)) = certificate.subject_alternative_name() else { return (names, addresses) };
    for name in &extension.value.general_names {
        match name {
            GeneralName::DNSName(name) => names.push((*name).to_owned()),
            GeneralName::IPAddress(bytes) => {
                let v4 = <[u8; 4]>::try_from(*bytes).map(IpAddr::from);
                let v6 = <[u8; 16]>::try_from(*bytes).map(IpAddr::from);
                addresses.extend(v4.or(v6).ok().map(|address| address.to_string()));
            }
            _ => {}
        }
    }
    (names, addresses)
}
