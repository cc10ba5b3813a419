import { Server } from "lucide-react";
import { EmptyState, PageHeader } from "../../ui";

export default function Backends() {
  return (
    <>
      <PageHeader title="Backends" />
      <EmptyState icon={<Server size={24} aria-hidden />} title="Not built yet" />
    </>
  );
}
