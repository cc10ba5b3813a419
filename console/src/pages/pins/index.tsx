// Pins: definitions of tools that are not as they were when they were approved or first seen. They are read, and approved or
// blocked.

import { useQuery } from "../../api/use-query";
import { loadConfig, loadPins } from "../../lib/control/contract";
import { EmptyState, ErrorState, Loading, PageHeader, Tabs } from "../../ui";
import { useParam } from "../../shell/use-param";
import { AllPinned } from "./all";
import { Modes, modesOf } from "./modes";
import { Waiting } from "./waiting";

type Tab = "waiting" | "all" | "modes";

export default function Pins() {
  const pins = useQuery("admin/pins", loadPins, { everyMs: 5_000 });
  const config = useQuery("admin/config", loadConfig);
  const [tab, setTab] = useParam("tab", "waiting");
  const all = pins.data?.pins ?? [];
  const waiting = all.filter((pin) => pin.difference !== null);
  const modes = modesOf(config.data);
  const shown: Tab = tab === "all" || tab === "modes" ? tab : "waiting";
  return (
    <>
      <PageHeader title="Pins" description="The definition of every tool is remembered when it is first seen. What changes afterwards is shown here, and where pins are enforced it waits for approval." />
      {pins.error !== undefined && pins.data === undefined && <ErrorState error={pins.error} onRetry={pins.refetch} />}
      {pins.isLoading && <Loading />}
      {pins.data !== undefined && (
        <Tabs<Tab>
          label="Pins"
          value={shown}
          onChange={setTab}
          items={[
            { value: "waiting", label: "Changed or new", count: waiting.length },
            { value: "all", label: "All pinned", count: all.length },
            { value: "modes", label: "Modes" },
          ]}
        >
          {shown === "waiting" && waiting.length === 0 && (
            <EmptyState title="No definition changed">{all.length === 0 ? "No tool is pinned yet: backends are pinned when they first list their tools." : "Every tool is as it was approved or first seen."}</EmptyState>
          )}
          {shown === "waiting" && waiting.length > 0 && <Waiting pins={waiting} modes={modes} onChange={pins.refetch} />}
          {shown === "all" && <AllPinned pins={all} />}
          {shown === "modes" && <Modes modes={modes} pins={all} />}
        </Tabs>
      )}
    </>
  );
}
