import { loadTools, Reviews } from "../../lib/reviews/tools";
import { STATUS_TEXT } from "../../lib/reviews/standing";
import type { PaletteLoader } from "../../shell/palette-items";

/** The latest; the page finds the others. */
const ITEMS_MAX = 200;

export default (async ({ signal, session }) => {
  const { rest } = session.paths;
  if (rest === null) return [];
  const reviews = new Reviews(rest, await loadTools(rest));
  if (!reviews.may("list_reviews")) return [];
  const { items } = await reviews.list({ recent_first: true }, ITEMS_MAX, signal);
  return items.map((review) => ({
    id: `review ${review.review_id}`,
    label: review.intent,
    kind: "Review",
    hint: STATUS_TEXT[review.status],
    keywords: `${review.review_id} ${review.project ?? ""} ${review.proposed_by}`,
    href: `/reviews/${review.review_id}`,
  }));
}) satisfies PaletteLoader;
