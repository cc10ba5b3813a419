// Which page is shown: the sign-in where nobody is signed in, and the page of the address otherwise.

import { TriangleAlert } from "lucide-react";
import { Component, Suspense, lazy } from "react";
import type { ErrorInfo, ReactNode } from "react";
import { Redirect, Route, Switch, useLocation, useSearch } from "wouter";
import { LiveProvider } from "../api/live";
import { SessionProvider, useSession } from "../api/session";
import { GROUPS, Gallery, PAGES } from "../routes";
import type { Page } from "../routes";
import { EmptyState, ErrorState, LinkButton, Loading, PageHeader, Toaster } from "../ui";
import { Shell } from "./shell";

const SignIn = lazy(() => import("../pages/sign-in"));

export function App() {
  return (
    <SessionProvider
      fallback={(problem, retry) =>
        problem === undefined ? (
          <Loading label="Connecting to the gateway…" />
        ) : (
          <main>
            <ErrorState error={problem} onRetry={retry} />
          </main>
        )
      }
    >
      <Entrance />
      <Toaster />
    </SessionProvider>
  );
}

function Entrance() {
  const { caller } = useSession();
  const [location] = useLocation();
  const search = useSearch();
  if (location === "/sign-in") {
    return (
      <Suspense fallback={<Loading />}>
        <SignIn />
      </Suspense>
    );
  }
  if (caller === null) {
    const to = location + (search === "" ? "" : `?${search}`);
    return <Redirect to={`/sign-in?to=${encodeURIComponent(to)}`} replace />;
  }
  return (
    <LiveProvider>
      <Shell groups={GROUPS}>
        <Suspense fallback={<Loading />}>
          <Switch>
            {PAGES.flatMap((page) =>
              page.paths.map((path) => (
                <Route key={path} path={path}>
                  {/* One key for the addresses of a page: it stays mounted between its list and its details. */}
                  <Guarded key={page.id} page={page} />
                </Route>
              )),
            )}
            {Gallery !== undefined && (
              <Route path="/gallery">
                <Gallery />
              </Route>
            )}
            <Route>
              <NotFound />
            </Route>
          </Switch>
        </Suspense>
      </Shell>
    </LiveProvider>
  );
}

function Guarded({ page }: { page: Page }) {
  const { isAdmin, caller } = useSession();
  const Content = page.component;
  if (page.isAdmin && !isAdmin) {
    return (
      <>
        <PageHeader title={page.label} />
        <EmptyState title="This page is for administrators" actions={<LinkButton href="/catalog">Open the catalog</LinkButton>}>
          You are signed in as {caller?.subject} with the role {caller?.role}.
        </EmptyState>
      </>
    );
  }
  return (
    <Boundary key={page.id}>
      <Content />
    </Boundary>
  );
}

function NotFound() {
  return (
    <>
      <PageHeader title="Not found" />
      <EmptyState title="There is no page at this address" actions={<LinkButton href="/">Open the overview</LinkButton>}>
        The link may be of another version of the gateway.
      </EmptyState>
    </>
  );
}

/** A page that fails leaves the navigation alone. */
class Boundary extends Component<{ children: ReactNode }, { error: unknown }> {
  override state: { error: unknown } = { error: undefined };

  static getDerivedStateFromError(error: unknown) {
    return { error };
  }

  override componentDidCatch(error: unknown, info: ErrorInfo) {
    console.error(error, info.componentStack);
  }

  override render() {
    if (this.state.error === undefined) return this.props.children;
    return (
      <>
        <PageHeader title="This page failed" />
        <ErrorState error={this.state.error} onRetry={() => window.location.reload()} />
        <EmptyState icon={<TriangleAlert size={24} aria-hidden />} title="The rest of the console still works">
          Reload the page. After an update of the gateway, parts of the page that was open are of the version before.
        </EmptyState>
      </>
    );
  }
}
