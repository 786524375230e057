//! Namespaces, variables, services.

mod namespace;
mod service;
mod var;

use crate::Entry;

pub(crate) const COMMANDS: &[Entry] = &[
    Entry::group("namespace", "Interact with namespaces"),
    Entry::command::<namespace::Apply>("namespace apply", "Create or update a namespace"),
    Entry::command::<namespace::Delete>("namespace delete", "Delete a namespace"),
    Entry::command::<namespace::Inspect>("namespace inspect", "Inspect a namespace"),
    Entry::command::<namespace::List>("namespace list", "List namespaces"),
    Entry::command::<namespace::Status>("namespace status", "Display a namespace's status")
        .arity("This command takes one argument: <namespace>"),
    Entry::group("service", "Interact with registered services"),
    Entry::command::<service::Delete>("service delete", "Deregister a registered service")
        .arity("This command takes two arguments: <service_name> and <service_id>"),
    Entry::command::<service::Info>("service info", "Show the registrations of a service")
        .arity("This command takes one argument: <service_name>"),
    Entry::command::<service::List>("service list", "Display all registered Nomad services"),
    Entry::group("var", "Interact with variables"),
    Entry::command::<var::Get>("var get", "Show a variable").arity("This command takes one argument: <path>"),
    Entry::command::<var::Init>("var init", "Write an example of a specification"),
    Entry::command::<var::List>("var list", "Show the paths of variables")
        .arity("This command takes flags and either no arguments or one: <prefix>"),
    Entry::command::<var::Purge>("var purge", "Delete a variable").arity("This command takes one argument: <path>"),
    Entry::command::<var::Put>("var put", "Create or change a variable"),
];
