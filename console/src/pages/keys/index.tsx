import { KeyRound } from "lucide-react";
import { EmptyState, PageHeader } from "../../ui";

export default function Keys() {
  return (
    <>
      <PageHeader title="Keys" />
      <EmptyState icon={<KeyRound size={24} aria-hidden />} title="Not built yet" />
    </>
  );
}
