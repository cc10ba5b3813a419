import { Gauge } from "lucide-react";
import { EmptyState, PageHeader } from "../../ui";

export default function Limits() {
  return (
    <>
      <PageHeader title="Limits" />
      <EmptyState icon={<Gauge size={24} aria-hidden />} title="Not built yet" />
    </>
  );
}
