//! Arguments of a command: variables and credentials in them.

use serde_json::Value;

use super::super::variables::{Export, variable_name};
use super::{Context, Converter, read_template, scalar};
use crate::config::credentials;
use crate::config::template::{Piece, Template};

impl Converter<'_> {
    /// Arguments name variables by `${…}`, inside the text.
    pub(super) fn args(&mut self, context: &Context<'_>, args: &[String]) -> Vec<String> {
        let mut out = Vec::with_capacity(args.len());
        let own = self.own_variables(context);
        let mut flag = "";
        for arg in args {
            let template = self.template(context, arg);
            let own = |name: &str| {
                own.iter().any(|own| own == name) && arg.contains(&format!("${{{name}}}"))
            };
            out.push(self.arg(context, flag, template, own));
            // `--flag=value` announces nothing, and its value must not become part of a name.
            flag = if arg.starts_with('-') && !arg.contains('=') {
                arg
            } else {
                ""
            };
        }
        out
    }

    /// Variables that the server's own `env` sets. The client does not know them, so `${…}` of one in an argument is
    /// for the program, as `mcp-remote` reads it. One that only passes on the client's own is the client's.
    fn own_variables(&self, context: &Context<'_>) -> Vec<String> {
        let passed_on = |name: &str, value: &str| {
            let template = read_template(value, context.server, self.environment);
            matches!(template.pieces.as_slice(), [Piece::Variable { name: of, .. }] if of == name)
        };
        let env = context
            .server
            .definition
            .get("env")
            .and_then(Value::as_object);
        let set = env
            .into_iter()
            .flatten()
            .filter_map(|(name, value)| Some((name, scalar(value)?)));
        set.filter(|(name, value)| !passed_on(name, value))
            .map(|(name, _)| name.clone())
            .collect()
    }

    fn arg(
        &mut self,
        context: &Context<'_>,
        flag: &str,
        template: Template,
        own: impl Fn(&str) -> bool,
    ) -> String {
        if !template.is_plain() {
            let named =
                credentials::name_says_so(flag) || credentials::name_says_so(&template.text());
            let leaks = |piece: &Piece| match piece {
                Piece::Variable {
                    default: Some(text),
                    ..
                } => named || credentials::shape_says_so(text),
                Piece::Variable { default: None, .. } | Piece::Text(_) => false,
            };
            let leaks = template.pieces.iter().any(leaks)
                || credentials::shape_says_so(&template.written());
            let template = template.with_literal(own);
            if !leaks {
                return template.written();
            }
            let name = format!("{}_ARGUMENT", context.variable);
            return self.placeholder(Export::Template(template), &name);
        }
        let text = template.text();
        // `--token=x`, `TOKEN=x` and `Authorization: x`: what is before the sign tells what is after it.
        let split = text
            .find(['=', ':'])
            .filter(|at| !text[*at..].starts_with("://"));
        if let Some(at) = split {
            let (name, value) = (&text[..at], text[at + 1..].trim_start());
            if credentials::looks_secret(name, value) && !value.is_empty() {
                let kept = &text[..text.len() - value.len()];
                let variable = format!("{}_{}", context.variable, variable_name(name));
                let placeholder = self.placeholder(Export::Literal(value.to_owned()), &variable);
                return format!("{}{placeholder}", kept.replace("${", "$${"));
            }
        }
        let announced = !text.starts_with('-') && credentials::looks_secret(flag, &text);
        if announced || credentials::shape_says_so(&text) {
            let what = if flag.is_empty() {
                "ARGUMENT".to_owned()
            } else {
                variable_name(flag)
            };
            return self.placeholder(
                Export::Literal(text),
                &format!("{}_{what}", context.variable),
            );
        }
        template.written()
    }

    fn placeholder(&mut self, export: Export, wanted: &str) -> String {
        match export {
            Export::Literal(text) if self.literals => return text.replace("${", "$${"),
            Export::Template(template) if self.literals => return template.written(),
            _ => {}
        }
        format!("${{{}}}", self.done.exports.name(wanted, wanted, export))
    }
}
