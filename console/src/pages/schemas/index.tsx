import { Blocks } from "lucide-react";
import { EmptyState, PageHeader } from "../../ui";

export default function Schemas() {
  return (
    <>
      <PageHeader title="Schemas" />
      <EmptyState icon={<Blocks size={24} aria-hidden />} title="Not built yet" />
    </>
  );
}
