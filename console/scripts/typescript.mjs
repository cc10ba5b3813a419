// Lets node import the TypeScript of this folder: `node --import ./scripts/typescript.mjs`.

import { existsSync, readFileSync } from "node:fs";
import { register } from "node:module";
import { fileURLToPath } from "node:url";
import { isMainThread } from "node:worker_threads";

if (isMainThread) register(import.meta.url);

/** Imports have no extension, as bundlers take them. */
export async function resolve(specifier, context, next) {
  if (specifier.startsWith(".") && context.parentURL?.endsWith(".ts")) {
    for (const end of [".ts", ".tsx", "/index.ts"]) {
      const url = new URL(specifier + end, context.parentURL);
      if (existsSync(url)) return { url: url.href, shortCircuit: true };
    }
  }
  return next(specifier, context);
}

export async function load(url, context, next) {
  if (!/\.tsx?$/.test(url)) return next(url, context);
  const { default: typescript } = await import("typescript");
  const { ModuleKind, ScriptTarget, transpileModule } = typescript;
  const path = fileURLToPath(url);
  const compilerOptions = { module: ModuleKind.ESNext, target: ScriptTarget.ES2022, inlineSourceMap: true, verbatimModuleSyntax: true };
  const { outputText } = transpileModule(readFileSync(path, "utf8"), { fileName: path, compilerOptions });
  return { format: "module", source: outputText, shortCircuit: true };
}
