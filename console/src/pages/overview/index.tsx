// Overview: is everything all right? What an operator sees first, and what callers without that right see.

import { useSession } from "../../api/session";
import { AdminOverview } from "./admin";
import { CallerOverview } from "./caller";

export default function Overview() {
  const { isAdmin } = useSession();
  return isAdmin ? <AdminOverview /> : <CallerOverview />;
}
