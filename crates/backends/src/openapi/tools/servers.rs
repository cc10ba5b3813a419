//! Where operations are: the servers of a description, with their variables, or the configured place.

use serde_json::{Value, json};

use super::Maker;
use crate::openapi::client::{Origin, Place};
use crate::openapi::document::text;
use crate::openapi::source::Location;
use crate::openapi::swagger;

impl Maker<'_> {
    /// Where the API as a whole is.
    pub(super) fn home(&mut self) -> Option<Origin> {
        match self.base(&[&self.document.root]) {
            Ok(base) => Some(base.origin),
            Err(why) => {
                self.notices
                    .add(format!("the API's server cannot be used: {why}"));
                None
            }
        }
    }

    /// The first server that can be used, of the first holder that names any.
    pub(super) fn base(&self, holders: &[&Value]) -> Result<Place, String> {
        if let Some(base) = &self.wishes.base {
            return Ok(base.clone());
        }
        let swagger;
        let named = holders.iter().filter_map(|holder| holder.get("servers"));
        let mut named =
            named.filter(|servers| servers.as_array().is_some_and(|all| !all.is_empty()));
        let servers = match named.next() {
            Some(servers) => servers,
            None => {
                swagger = match self.document.root.get("swagger") {
                    Some(_) => swagger::servers(&self.document.root),
                    None => json!([{ "url": "/" }]),
                };
                &swagger
            }
        };
        let mut first = None;
        for server in servers.as_array().into_iter().flatten() {
            match self.server(server) {
                Ok(place) => return Ok(place),
                Err(why) => first = first.or(Some(why)),
            }
        }
        Err(first.unwrap_or_else(|| "no server is named; set base_url".to_owned()))
    }

    fn server(&self, server: &Value) -> Result<Place, String> {
        let mut url = text(server, "url").unwrap_or("/").to_owned();
        let variables = server.get("variables").and_then(Value::as_object);
        for (name, variable) in variables.into_iter().flatten() {
            let default = text(variable, "default").unwrap_or_default();
            let value = self
                .wishes
                .variables
                .get(name)
                .map_or(default, String::as_str);
            let values = variable.get("enum").and_then(Value::as_array);
            if values.is_some_and(|values| !values.iter().any(|known| known == value)) {
                return Err(format!("the server variable `{name}` cannot be `{value}`"));
            }
            url = url.replace(&format!("{{{name}}}"), value);
        }
        let nowhere = || format!("the server `{url:.200}` is no http or https URL; set base_url");
        let mut place = match (Place::of(&url), self.location) {
            (Some(place), _) => place,
            (None, Location::Url(document)) => document.join(&url).ok_or_else(nowhere)?,
            (None, Location::File(_)) => return Err(nowhere()),
        };
        let path = place.target.split('?').next().unwrap_or_default();
        place.target = path.trim_end_matches('/').to_owned();
        Ok(place)
    }
}
