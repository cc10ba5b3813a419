// Reviews: the queue, and one of them. Everything is asked by the review tools that agents call, too.

import { GitPullRequest } from "lucide-react";
import { useParams } from "wouter";
import { EmptyState, ErrorState, Loading, PageHeader } from "../../ui";
import { Detail } from "./detail";
import { Queue } from "./queue";
import { useReviews } from "./use-reviews";

export default function ReviewsPage() {
  const { id } = useParams<{ id?: string }>();
  const { reviews, error, retry } = useReviews();
  if (reviews === undefined) {
    return (
      <>
        <PageHeader title="Reviews" />
        {error === undefined ? <Loading /> : <ErrorState error={error} onRetry={retry} />}
      </>
    );
  }
  if (!reviews.may("list_reviews") || !reviews.may("get_proposal")) {
    return (
      <>
        <PageHeader title="Reviews" />
        <EmptyState icon={<GitPullRequest size={24} aria-hidden />} title="You see no review tools">
          Either the gateway has none (<code>review.enabled = false</code>), or your role may not call <code>list_reviews</code> and <code>get_proposal</code>. An operator can change both in the configuration.
        </EmptyState>
      </>
    );
  }
  return id === undefined ? <Queue reviews={reviews} /> : <Detail key={id} reviews={reviews} id={id} />;
}
