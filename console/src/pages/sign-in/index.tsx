// Asks for a token or an API key, and leads back to the address that was asked for.

import { useEffect, useState } from "react";
import { Redirect, useSearch } from "wouter";
import { useSession } from "../../api/session";
import { useAction } from "../../api/use-query";
import { Button, ErrorState, Input } from "../../ui";
import styles from "./sign-in.module.css";

/** Longer than any token. */
const CREDENTIAL_CHARS_MAX = 16_384;

/** Only addresses of this console: `to` comes from the address bar. */
function target(search: string): string {
  const to = new URLSearchParams(search).get("to") ?? "/";
  return /^\/(?![/\\])/.test(to) && !to.startsWith("/sign-in") ? to : "/";
}

export default function SignIn() {
  const { caller, signIn } = useSession();
  const search = useSearch();
  const [credential, setCredential] = useState("");
  const action = useAction(signIn);
  useEffect(() => {
    document.title = "Sign in · Sentinel";
  }, []);
  if (caller !== null) return <Redirect to={target(search)} replace />;
  return (
    <main className={styles.page}>
      <form
        className={styles.form}
        onSubmit={(event) => {
          event.preventDefault();
          if (credential.trim() !== "") void action.run(credential.trim());
        }}
      >
        <div className={styles.brand}>
          <img src={`${import.meta.env.BASE_URL}icon.svg`} alt="" />
          Sentinel
        </div>
        <h1 className={styles.title}>Sign in</h1>
        <Input
          label="Token or API key"
          hint={
            <>
              An operator makes one with <code>sentinel key create</code>.
            </>
          }
          type="password"
          autoComplete="current-password"
          name="credential"
          required
          autoFocus
          mono
          maxLength={CREDENTIAL_CHARS_MAX}
          value={credential}
          onChange={setCredential}
        />
        {action.error && <ErrorState error={action.error} compact />}
        <Button variant="primary" type="submit" busy={action.isRunning}>
          Sign in
        </Button>
      </form>
    </main>
  );
}
