import { Power } from "lucide-react";
import { EmptyState, PageHeader } from "../../ui";

export default function Switches() {
  return (
    <>
      <PageHeader title="Switches" />
      <EmptyState icon={<Power size={24} aria-hidden />} title="Not built yet" />
    </>
  );
}
