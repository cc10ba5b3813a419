import { Activity } from "lucide-react";
import { EmptyState, PageHeader } from "../../ui";

export default function Traffic() {
  return (
    <>
      <PageHeader title="Traffic" />
      <EmptyState icon={<Activity size={24} aria-hidden />} title="Not built yet" />
    </>
  );
}
