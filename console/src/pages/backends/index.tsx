// Backends: all of them, and one of them.

import { useParams } from "wouter";
import { BackendDetail } from "./detail";
import { BackendList } from "./list";

export default function Backends() {
  const { name } = useParams<{ name?: string }>();
  return name === undefined ? <BackendList /> : <BackendDetail key={name} name={name} />;
}
