// What the gateway says of each code of a refusal: the table at `/problems`.

import { request } from "../../api/client";
import { useQuery } from "../../api/use-query";
import { adviceTable } from "./explain";
import type { AdviceTable } from "./explain";

const NONE: AdviceTable = new Map();

export function useAdvice(): AdviceTable {
  const { data } = useQuery("problems", async (signal) => {
    const response = await request("/problems", { headers: { Accept: "application/json" }, signal });
    return adviceTable(await response.json());
  });
  return data ?? NONE;
}
