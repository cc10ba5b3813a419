import { Plug } from "lucide-react";
import { EmptyState, PageHeader } from "../../ui";

export default function Connect() {
  return (
    <>
      <PageHeader title="Connect" />
      <EmptyState icon={<Plug size={24} aria-hidden />} title="Not built yet" />
    </>
  );
}
