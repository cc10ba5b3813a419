import { BookOpen } from "lucide-react";
import { EmptyState, PageHeader } from "../../ui";

export default function Catalog() {
  return (
    <>
      <PageHeader title="Catalog" />
      <EmptyState icon={<BookOpen size={24} aria-hidden />} title="Not built yet" />
    </>
  );
}
