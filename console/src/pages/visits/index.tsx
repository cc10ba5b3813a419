// Other MCP servers, looked at through the gateway: which there are, and one of them with everything that it offers.

import { useParams } from "wouter";
import { Visit } from "./visit";
import { Visits } from "./visits";

export default function VisitsPage() {
  const { id } = useParams<{ id?: string }>();
  return id === undefined ? <Visits /> : <Visit key={id} id={id} />;
}
