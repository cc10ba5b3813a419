//! The paths of calls that are answered later.

use serde_json::{Value, json};

use super::super::answers::{self, Asked};
use super::super::schemas::reference;
use super::shared::{PLAIN, result};
use super::{GATEWAY, JSON, Writer};

impl Writer<'_> {
    pub(super) fn add_tasks(&mut self) {
        let id = json!({
            "name": "id", "in": "path", "required": true, "schema": { "type": "string" },
            "description": "The last segment of `Location`.",
        });
        let headers = answers::referred(&["Retry-After"]);
        let running = json!({
            "description": "The call runs.", "headers": headers,
            "content": { JSON: { "schema": reference("Task") } },
        });
        let ok = result(
            "The answer that the call would have had.",
            &json!({}),
            PLAIN,
        );
        let mut status = self.responses(Asked::Task, ok);
        status["202"] = running.clone();
        let without = |mut responses: Value, status: &str, answer: Value| {
            if let Some(all) = responses.as_object_mut() {
                all.remove("200");
            }
            responses[status] = answer;
            responses
        };
        let none = json!({});
        let gone = json!({ "description": "The call is cancelled, or its answer forgotten." });
        let end = without(self.responses(Asked::TaskEnd, none.clone()), "204", gone);
        let goes_on = without(self.responses(Asked::TaskContinue, none), "202", running);
        let prefer = json!({ "$ref": "#/components/parameters/Prefer" });
        let body = json!({ "required": true, "content": { JSON: { "schema": reference("TaskAnswers") } } });
        let (path, answers) = (
            self.shown.rest("/tasks/{id}"),
            self.shown.rest("/tasks/{id}/continue"),
        );
        let rows = [
            (
                &path,
                "get",
                "task_status",
                "How a call goes that is answered later, or its answer",
                json!([id, prefer]),
                status,
            ),
            (
                &path,
                "delete",
                "cancel_task",
                "Cancels a call that is answered later, or forgets its answer",
                json!([id]),
                end,
            ),
            (
                &answers,
                "post",
                "continue_task",
                "Answers what a call asks that is answered later",
                json!([id]),
                goes_on,
            ),
        ];
        for (path, verb, name, summary, parameters, responses) in rows {
            let mut operation = json!({
                "tags": [GATEWAY], "operationId": self.ids.unique(name, ""), "summary": summary,
                "parameters": parameters, "responses": responses,
            });
            if verb == "post" {
                operation["requestBody"] = body.clone();
            }
            self.insert(path.clone(), verb, operation);
        }
    }
}
