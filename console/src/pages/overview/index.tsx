import { LayoutDashboard } from "lucide-react";
import { EmptyState, PageHeader } from "../../ui";

export default function Overview() {
  return (
    <>
      <PageHeader title="Overview" />
      <EmptyState icon={<LayoutDashboard size={24} aria-hidden />} title="Not built yet" />
    </>
  );
}
