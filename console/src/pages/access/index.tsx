import { ShieldCheck } from "lucide-react";
import { EmptyState, PageHeader } from "../../ui";

export default function Access() {
  return (
    <>
      <PageHeader title="Access" />
      <EmptyState icon={<ShieldCheck size={24} aria-hidden />} title="Not built yet" />
    </>
  );
}
