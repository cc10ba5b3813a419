import { GitPullRequest } from "lucide-react";
import { EmptyState, PageHeader } from "../../ui";

export default function Reviews() {
  return (
    <>
      <PageHeader title="Reviews" />
      <EmptyState icon={<GitPullRequest size={24} aria-hidden />} title="Not built yet" />
    </>
  );
}
