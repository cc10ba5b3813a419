import { PageHeader } from "../../ui";
export default function Gallery() { return <PageHeader title="Gallery" />; }
