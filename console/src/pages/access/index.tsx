// Access: what each role sees and calls, and why.

import { useMemo } from "react";
import { useSession } from "../../api/session";
import { useQuery } from "../../api/use-query";
import { loadCatalog, loadRoles } from "../../lib/control/contract";
import { NotHere, isMissing } from "../../lib/control/parts";
import { plural } from "../../lib/control/words";
import { EmptyState, ErrorState, Loading, PageHeader, Tabs } from "../../ui";
import { useParamSet } from "../../shell/use-param";
import { Matrix } from "./matrix";
import { RoleDrawer } from "./role";
import { WhyDrawer, WhyForm } from "./why";

type Tab = "matrix" | "why";

export default function Access() {
  const { session, caller } = useSession();
  const catalog = useQuery("admin/catalog", loadCatalog, { everyMs: 15_000 });
  const roles = useQuery("admin/roles", loadRoles, { everyMs: 15_000 });
  const [params, setParams] = useParamSet();
  const tab: Tab = params.get("tab") === "why" ? "why" : "matrix";
  const names = useMemo(() => roles.data?.roles.map((role) => role.name) ?? [], [roles.data]);
  const error = roles.error ?? catalog.error;
  const detail = params.get("detail");
  const role = roles.data?.roles.find((each) => each.name === detail);
  return (
    <>
      <PageHeader
        title="Access"
        description={
          roles.data === undefined
            ? "What each role sees and calls."
            : `${plural(roles.data.roles.length, "role")}. You are ${caller?.subject ?? "nobody"} with the role ${caller?.role ?? "none"}${session.guarded ? "" : ", like every local caller: there is no section [auth]"}.`
        }
      />
      {isMissing(roles.error) ? (
        <NotHere what="what roles see and call" />
      ) : (
        <Tabs<Tab>
          label="Access"
          value={tab}
          onChange={(next) => setParams({ tab: next === "matrix" ? "" : next, detail: "" })}
          items={[
            { value: "matrix", label: "Who sees and calls what" },
            { value: "why", label: "Why?" },
          ]}
        >
          {error !== undefined && (catalog.data === undefined || roles.data === undefined) && <ErrorState error={error} onRetry={roles.error === undefined ? catalog.refetch : roles.refetch} />}
          {error === undefined && (catalog.data === undefined || roles.data === undefined) && <Loading />}
          {catalog.data !== undefined && roles.data !== undefined && tab === "matrix" && catalog.data.length === 0 && (
            <EmptyState title="The catalog is empty">Add a backend, and its operations are here with the roles that may use them.</EmptyState>
          )}
          {catalog.data !== undefined && roles.data !== undefined && tab === "matrix" && catalog.data.length > 0 && <Matrix operations={catalog.data} roles={roles.data.roles} />}
          {tab === "why" && <WhyForm operations={catalog.data ?? []} roles={names} />}
        </Tabs>
      )}
      <RoleDrawer role={role} onClose={() => setParams({ detail: "" })} />
      {tab === "matrix" && <WhyDrawer />}
    </>
  );
}
