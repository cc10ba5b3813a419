import { Settings } from "lucide-react";
import { EmptyState, PageHeader } from "../../ui";

export default function Config() {
  return (
    <>
      <PageHeader title="Config" />
      <EmptyState icon={<Settings size={24} aria-hidden />} title="Not built yet" />
    </>
  );
}
