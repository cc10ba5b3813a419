import { Pin } from "lucide-react";
import { EmptyState, PageHeader } from "../../ui";

export default function Pins() {
  return (
    <>
      <PageHeader title="Pins" />
      <EmptyState icon={<Pin size={24} aria-hidden />} title="Not built yet" />
    </>
  );
}
